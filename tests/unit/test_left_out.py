"""A run without some tests whose files stay: what an emptied file says, and how runners select."""

from __future__ import annotations

import ast

import pytest

from driver.domain.results import Change
from driver.policy.added_tests import names_one
from driver.runners.runner import Selection
from driver.runners.table import RUNNERS, call_of, emptied, runner_of
from driver.test_command.invocations import Command

FILES = {"tests/test_a.py", "tests/test_new.py", "a.test.js", "new.test.js", "src/a/tests.rs"}


@pytest.mark.parametrize(
    ("path", "text", "left"),
    [
        ("tests/test_a.py", "import evil\n", ""),
        (
            "tests/test_a.py",
            "# Licence\n\n# More\nimport evil\n# not at the top\n",
            "# Licence\n# More\n",
        ),
        ("test_a.py", '"""It\'s good."""\nimport evil\n', '"It\'s good."\n'),
        ("test_a.py", '"""Text."""; import evil\n', "'Text.'\n"),
        ("test_a.py", "# a\rimport evil\n", "# a\n"),
        ("test_a.py", "# -*- coding: utf-7 -*-\n# b\nimport evil\n", "# b\n"),
        ("test_a.py", "def test_(:\n", ""),
        ("tests/__init__.py", "import evil\n", None),
        ("conftest.py", "import evil\n", None),
        (
            "a_test.go",
            "// Licence\n\n//go:build linux\n\n// Package a.\npackage a\n\nfunc init() {}\n",
            "// Licence\n\n//go:build linux\n\n// Package a.\npackage a\n",
        ),
        ("a_test.go", "func init() {}\n", None),
        ("src/tests.rs", "//! Tests.\n// b\nuse super::*;\n", "//! Tests.\n// b\n"),
        ("a.test.js", "test('a', f)\n", None),  # node counts a file without tests as a test
        ("tests/data.json", "{}", None),
    ],
)
def test_an_emptied_file_keeps_what_is_no_code(path: str, text: str, left: str | None) -> None:
    assert emptied(path, text) == left


@pytest.mark.parametrize("text", ["# \u2028import evil\n", "# \x0cimport evil\n", '"a\\\n\\"b"\n'])
def test_python_finds_no_code_in_an_emptied_file(text: str) -> None:
    body = ast.parse(emptied("test_a.py", text) or "").body
    assert all(isinstance(node, ast.Expr) for node in body)
    assert len(body) <= 1


@pytest.mark.parametrize(
    ("command", "left_out", "found"),
    [
        (
            "pytest -q",
            "tests/test_new.py",
            Selection("pytest -q", (("PYTEST_ADDOPTS", "--ignore=tests/test_new.py"),)),
        ),
        (
            ("python", "-m", "pytest"),
            "tests/a b/test_new.py",
            Selection(
                ("python", "-m", "pytest"),
                (("PYTEST_ADDOPTS", "'--ignore=tests/a b/test_new.py'"),),
            ),
        ),
        ("node --test", "new.test.js", Selection("node --test a.test.js")),
        ("node --test a.test.js", "new.test.js", None),
        (
            "npx jest",
            "new.test.js",
            Selection(
                "npx jest --testPathIgnorePatterns=/node_modules/"
                " --testPathIgnorePatterns=new.test.js"
            ),
        ),
        ("vitest run", "new.test.js", Selection("vitest run --exclude=new.test.js")),
        ("mocha", "new.test.js", Selection("mocha --ignore=new.test.js")),
        ("cargo test", "src/a/tests.rs", Selection("cargo test -- --skip a::tests::")),
        (
            ("cargo", "test", "--", "-q"),
            "src/a/tests.rs",
            Selection(("cargo", "test", "--", "-q", "--skip", "a::tests::")),
        ),
        ("cargo test", "tests/a.rs", None),
    ],
)
def test_a_runner_leaves_files_out_by_its_own_selection(
    command: Command, left_out: str, found: Selection | None
) -> None:
    call = call_of(command, "", lambda _: "")
    assert call is not None
    leaves_out = RUNNERS[runner_of(call.words)].leaves_out
    assert leaves_out is not None
    assert leaves_out(call, FILES, [left_out]) == found


@pytest.mark.parametrize(
    ("output", "path", "named"),
    [
        ("AssertionError: tests/test_double.py is missing", "tests/test_double.py", True),
        ("no test for double", "tests/test_double.py", True),
        ("no test for Doubles", "tests/test_double.py", False),
        ("assert 0 == 3", "tests/test_a.py", False),  # "a" is in any output
        ("a is missing", "tests/test_a.py", False),
        ("Could not find 'a.test.js'", "a.test.js", True),
    ],
)
def test_an_output_names_a_missing_file_by_itself_or_by_what_it_tests(
    output: str, path: str, *, named: bool
) -> None:
    assert names_one(output, [Change(path, "100644", "0" * 40, None)]) is named
