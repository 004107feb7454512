#!/usr/bin/env python3
"""The table of faults and restarts, and the live tests that read it: each row is read by the test that it names, and no test asks for
a row that is not there."""
import ast
import pathlib
import re
import sys

from restart_cases import CASES
from rule_cases import case, main

HERE = pathlib.Path(__file__).resolve().parent
READERS = re.compile(r'(?:expect_restart|lasts)\(\s*"(\w+)"')
ASKED = re.compile(r'(?:expect_restart|expect_before|expect_way_back|expect_kept|lasts)\(\s*"(\w+)"')
# A function that plays a row under the name of its caller.
NAMED_BY_ROW = re.compile(r'expect_restart\(\s*(?!")')


def functions(path):
    """{name: text} of a file's functions and methods."""
    text = path.read_text()
    return {node.name: ast.get_source_segment(text, node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}


@case
def every_row_is_read_by_the_test_that_it_names():
    for name, row in CASES.items():
        file, function = row["live"].split(": ")
        body = functions(HERE / file).get(function, "")
        assert body, f"{name}: {file} has no {function}"
        named = name in READERS.findall(body)
        by_caller = NAMED_BY_ROW.search(body) and f'"{name}"' in (HERE / file).read_text()
        assert named or by_caller, f"{name}: {function} of {file} reads no such row"


@case
def every_row_that_is_asked_for_is_there():
    for path in HERE.glob("*_test.py"):
        for name in ASKED.findall(path.read_text()) if path.name != pathlib.Path(__file__).name else ():
            assert name in CASES, f"{path.name} asks for {name}"


@case
def rows_say_what_the_functions_read():
    for name, row in CASES.items():
        assert row["tier"] in ("nothing", "skip", "in_process", "in_job", "swap", "shrink", "new_job", "stop"), name
        assert row["accused"] in ("victim", "nobody") and row["from"] in ("checkpoint", "copy", "here"), name
        assert ("before" in row) == ("before_tier" in row), name
        assert (row["tier"] == "nothing") == ("lasts_s" in row), name


if __name__ == "__main__":
    sys.exit(main())
