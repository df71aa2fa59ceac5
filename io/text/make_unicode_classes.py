"""Writes unicode_letters.txt and unicode_numbers.txt beside this file: the ranges of code points of the general categories
L (letter) and N (number), one per line. Usage: python3 make_unicode_classes.py

The ranges come from the Unicode data of the Python that runs this script. The files in the repository were made with
Python 3.14: it has Unicode 16.0.0, the version of Hugging Face's tokenizers and of tiktoken.
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
