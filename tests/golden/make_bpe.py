#!/usr/bin/env python3
"""Makes tests/golden/data/bpe_tokenizer.json and bpe_encoded.json with Hugging Face's tokenizers. Needed only to change these
files, not to build or test.

    pip install tokenizers ; python tests/golden/make_bpe.py

bpe_tokenizer.json  a byte-level BPE of 500 tokens, trained on this repository's README.md with its markup
bpe_encoded.json    [{"text": …, "pieces": [byte lengths of the pre-tokenizer's pieces], "tokens": [numbers]}, …]
"""
import json
import os
import random

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
ROOT = os.path.join(FOLDER, "..", "..", "..")

TEXTS = [
    "", " ", "  ", "a", " a", "  a", "\n", "a\n", "\n\na", "a  b", "a \n b", "a \u00a0b", "\u2003\u2003x", "tab\t\tx", "end   ",
    "The mixed-precision run, isn't it? They're we've I'm he'll she'd 'tis 'section CAN'T can't'",
    "x1 12 1,234.5e-6 2nd \u00bd \u00b2 \u0663\u0664 \u2167 \u4e00\u4e8c\u4e09", "caf\u00e9 na\u00efve \u00fcber \u0441\u043b\u043e\u0432\u043e "
    "\u05e9\u05dc\u05d5\u05dd \u0939\u093f\u0928\u094d\u0926\u0940 \ud55c\uad6d\uc5b4 \u65e5\u672c\u8a9e", "e\u0301 combining",
    "\U0001F600 \U0001F468\u200d\U0001F469 \U0001D54F \u2728!!", "...  !!??\u2014\u2026\u201cquoted\u201d", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "<|endoftext|>", "one<|endoftext|>two <|endoftext|> three<|endoftext|", "\x00\x01\x1c\x1f\x7f\x85", "\u200b\ufeff\u3000z",
    "int main() {\n    return 0;\n}\n", "# heading\n\n- item\n", "\r\n\r\nwindows\r\n",
]


def main():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train([os.path.join(ROOT, "README.md"), os.path.join(ROOT, "CONTRIBUTING.md")], trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.save(os.path.join(FOLDER, "bpe_tokenizer.json"), pretty=False)

    chance = random.Random(1)
    alphabet = "aB e'tsrl  \n\t1\u0664.,\u00e9\u4e00\U0001F600\u00a0-" + "the and ing"
    texts = TEXTS + ["".join(chance.choice(alphabet) for _ in range(chance.randrange(1, 40))) for _ in range(60)]
    cases = []
    for text in texts:
        pieces = tokenizer.pre_tokenizer.pre_tokenize_str(text)
        cases.append({"text": text, "pieces": [len(text[a:b].encode()) for _, (a, b) in pieces],
                      "tokens": tokenizer.encode(text).ids})
        assert tokenizer.decode(cases[-1]["tokens"], skip_special_tokens=False) == text
    with open(os.path.join(FOLDER, "bpe_encoded.json"), "w") as file:
        json.dump(cases, file, ensure_ascii=True, indent=0, separators=(",", ":"))


if __name__ == "__main__":
    main()
