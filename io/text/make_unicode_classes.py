"""Writes unicode_letters.txt and unicode_numbers.txt beside this file: the code points of the general categories L and N,
a range per line, from the Unicode data of this Python: python3 make_unicode_classes.py

The files in the repository are of Unicode 16.0.0 (Python 3.14), which is what Hugging Face's tokenizers and tiktoken use.
"""
import pathlib
import unicodedata


def ranges(kind):
    start = None
    for code in range(0x110001):
        inside = code < 0x110000 and unicodedata.category(chr(code))[0] == kind
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            yield start, code - 1
            start = None


def main():
    for kind, name in ("L", "letters"), ("N", "numbers"):
        lines = ["%X..%X\n" % pair for pair in ranges(kind)]
        pathlib.Path(__file__).with_name(f"unicode_{name}.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
