"""Where a command or a configuration selects tests, the planted ones are selected with them."""

from __future__ import annotations

import pytest

from driver.runners.canary import plan_canary
from driver.runners.runner import Canary

CASE = "import unittest\n\n\nclass A(unittest.TestCase):\n    def test_alpha(self): 0\n"
MARKED = "import pytest\n\nunit = pytest.mark.unit\n\n\n@unit\ndef test_total():\n    assert 1\n"
NODE = 'const { test } = require("node:test");\ntest("adds", () => {});\n'
NODE_MORE = 'const { test } = require("node:test");\ntest("no", () => {});\n'
FILES = {"calc.py": "", "tests/__init__.py": "", "tests/test_a.py": CASE, "a.test.js": NODE,
         "tests/test_b.py": MARKED, "b.test.js": NODE_MORE}  # fmt: skip


def plan(command: str | tuple[str, ...], **more: str) -> Canary:
    found = plan_canary(command, {**FILES, **more}, ("calc.py",), "n", texts={**FILES, **more})
    assert isinstance(found, Canary), found
    return found


@pytest.mark.parametrize(
    ("command", "path", "name"),
    [
        ("pytest -q tests -k alpha", "tests/test_a.py", "test_alpha_n"),
        ("pytest -k 'total and not alpha' tests", "tests/test_b.py", "test_total_n"),
        ("pytest -k test_b", "tests/test_b.py", "test_n"),
        ("pytest -k '(ALPHA or zeta) and A'", "tests/test_a.py", "test_alpha_n"),
        ("pytest -k old -k total", "tests/test_b.py", "test_total_n"),
        ("python -m pytest -m unit -q", "tests/test_b.py", "test_n"),
        ("pytest -m 'not unit'", "tests/test_a.py", "test_n"),
        ("python3 -m unittest -k alpha tests.test_a", "tests/test_a.py", "test_alpha_n"),
        ("python -m unittest -k 'tests.*.A.*'", "tests/test_a.py", "test_n"),
        ("python -m unittest -kzeta -k=alpha", "tests/test_a.py", "test_alpha_n"),
        ("node --test --test-name-pattern=adds a.test.js", "a.test.js", "adds n"),
        ("node --test --test-name-pattern '/^ADDS/i'", "a.test.js", "adds n"),
    ],
)
def test_it_has_a_name_or_a_mark_that_the_command_selects(
    command: str, path: str, name: str
) -> None:
    found = plan(command)
    assert (found.path, found.names[0], found.amends) == (path, name, True)
    assert (found.command, found.selects) == (command, False)


@pytest.mark.parametrize(
    "config",
    [
        "[pytest]\naddopts = -q -m unit\n",
        "[pytest]\naddopts =\n    -q\n    -k total\n",
        "[tool.pytest.ini_options]\naddopts = \"-m 'unit and not slow'\"\n",
        '[tool.pytest.ini_options]\naddopts = ["-m", "unit"]\n',
    ],
)
def test_what_the_configuration_selects_counts_as_well(config: str) -> None:
    name = "pyproject.toml" if "[tool" in config else "pytest.ini"
    found = plan("pytest", **{name: config})
    assert found.path == "tests/test_b.py"
    assert "@unit\ndef test_" in found.text
    assert found.command == "pytest"


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        (("pytest", "-k", "zeta", "tests"), ("pytest", "tests", "-k", "n")),
        (("pytest", "-k=a", "-k", "zeta"), ("pytest", "-k", "n")),
        ("python -m pytest -m slow -q --maxfail=1", "python -m pytest -q --maxfail=1 -k n"),
        ("pytest -k 'zeta or eta' tests", "pytest tests -k n"),
        ("python -m unittest tests.test_a -k zeta", "python -m unittest tests.test_a -k n"),
    ],
)
def test_where_no_test_shows_such_a_name_it_is_selected_in_place_of_others(
    command: str | tuple[str, ...], asked: str | tuple[str, ...]
) -> None:
    found = plan(command)
    plain = found.command if isinstance(found.command, str) else " ".join(found.command)
    wanted = asked if isinstance(asked, str) else " ".join(asked)
    assert (plain.replace(" --maxfail=0", ""), found.selects) == (wanted, True)


def test_without_a_selection_all_tests_run() -> None:
    assert not plan(("python", "-m", "pytest")).selects
