"""Where a command selects tests by a word, the planted ones are selected in their place."""

from __future__ import annotations

import pytest

from driver.runners.canary import plan_canary
from driver.runners.runner import Canary, NotApplicable

FILES = frozenset({"calc.py", "tests/__init__.py", "tests/test_a.py"})
TEXTS = {
    "tests/test_a.py": "import unittest\n\n\nclass A(unittest.TestCase):\n    def test_a(self): 0\n"
}


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("pytest -k calc tests", "pytest tests -k n"),
        ("python -m pytest -m slow -q --maxfail=1", "python -m pytest -q --maxfail=1 -k n"),
        ("pytest -k=a -k b", "pytest -k n"),
        ("python -m unittest -k a -k b", "python -m unittest -k n"),
        ("python -m unittest tests.test_a -k a", "python -m unittest tests.test_a -k n"),
    ],
)
def test_the_planted_test_is_selected_in_place_of_others(command: str, asked: str) -> None:
    found = plan_canary(tuple(command.split()), FILES, ("calc.py",), "n", texts=TEXTS)
    assert isinstance(found, Canary)
    assert (found.command, found.selects) == (tuple(asked.split()), True)


def test_a_selection_that_names_nothing_is_left_out() -> None:
    found = plan_canary(("pytest", "-m"), FILES, (), "n", texts=TEXTS)
    assert isinstance(found, Canary)
    assert found.command[:3] == ("pytest", "-k", "n")
    assert "-m" not in found.command


def test_without_a_selection_all_tests_run() -> None:
    plain = plan_canary(("python", "-m", "pytest"), FILES, (), "n", texts=TEXTS)
    assert isinstance(plain, Canary)
    assert not plain.selects


def test_a_text_is_not_taken_apart() -> None:
    assert isinstance(plan_canary("pytest -k 'a or b'", FILES, (), "n", texts=TEXTS), NotApplicable)
