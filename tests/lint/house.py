"""house.py ROOT: prints figures about the architecture, and fails if one exceeds its limit."""
import re
import sys

import lint

ROOT = sys.argv[1]
TRAINER = "amp/step/trainer.h"


def headers_of(tree, path):
    """The project headers that a file includes, directly or through others."""
    found, todo = set(), [path]
    while todo:
        for _, quoted, _ in lint.includes(tree.files.get(todo.pop(), "")):
            if quoted and quoted not in found:
                found.add(quoted)
                todo.append(quoted)
    return found


def data_members(tree, path, name):
    """Lines like `Type member_;` in the class: members end with an underscore, locals do not."""
    body = re.split(rf"^class {name}\b", lint.code_only(tree.files[path]), flags=re.MULTILINE)[1].split("\n};", 1)[0]
    return re.findall(r"^  [^()\n]*\b\w+_(?: = [^;\n]*|\{[^;\n]*\})?;", body, re.MULTILINE)


def main():
    tree = lint.Tree(ROOT)
    library = sum(text.count("\n") for path, text in tree.cpp() if not path.startswith("tests/"))
    figures = [
        ("project headers behind trainer.h", len(headers_of(tree, TRAINER)), 30),
        ("data members of Trainer", len(data_members(tree, TRAINER, "Trainer")), 12),
        ("includes between rooms that run upward", len(list(lint.rooms(tree))), 0),
        ("classes with members in two .cpp", len(list(lint.one_source_per_class(tree))), 0),
        ("comparisons with the name of an op", len(list(lint.op_identity(tree))), 0),
        ("lines of C++ and CUDA outside tests/", library, None),
    ]
    for name, value, most in figures:
        print(f"{name:<38} {value:7}  {'' if most is None else f'at most {most}'}")
    over = [name for name, value, most in figures if most is not None and value > most]
    if over:
        sys.exit("over the limit: " + ", ".join(over))


main()
