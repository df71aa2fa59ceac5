"""count.py [NAME …]: prints the number of characters of each C++ program and of its twin in PyTorch, without comments and white space.

Fails if a C++ program has more than 1.3 times the characters of its twin.
"""
import ast
import io
import pathlib
import re
import sys
import tokenize

HERE = pathlib.Path(__file__).parent
LIMIT = 1.3
SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def cpp_characters(text):
    """Removes comments outside of strings, then white space outside of strings."""
    literal = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\''
    kept = re.sub(rf"({literal})|//[^\n]*|/\*.*?\*/", lambda m: m.group(1) or " ", text, flags=re.DOTALL)
    return len(re.sub(rf"({literal})|\s+", lambda m: m.group(1) or "", kept))


def python_characters(text):
    """Adds up the lengths of all tokens but comments and docstrings."""
    docstrings = set()
    for node in ast.walk(ast.parse(text)):
        documented = isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        if documented and ast.get_docstring(node, clean=False) is not None:
            docstrings.add((node.body[0].lineno, node.body[0].col_offset))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(len(t.string) for t in tokens if t.type not in SKIPPED and t.start not in docstrings)


def main():
    names = sys.argv[1:] or sorted(path.stem for path in HERE.glob("*.cpp"))
    over = []
    print(f"{'model':<16}{'C++':>7}{'PyTorch':>9}{'ratio':>7}")
    for name in names:
        cpp = cpp_characters((HERE / f"{name}.cpp").read_text())
        python = python_characters((HERE / "pytorch" / f"{name}.py").read_text())
        print(f"{name:<16}{cpp:7}{python:9}{cpp / python:7.2f}")
        if cpp > LIMIT * python:
            over.append(name)
    if over:
        sys.exit(f"more than {LIMIT} times the characters of the twin: {', '.join(over)}")


main()
