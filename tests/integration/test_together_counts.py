"""Items that make each other's tests disappear without turning anything red."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.interpreter import PYTHON
from tests.support.waves import Scene, built, item, verdicts, writes

TESTS = """\
import pathlib
import unittest


class Together(unittest.TestCase):
    def test_one(self):
        if pathlib.Path("a.txt").exists() and pathlib.Path("b.txt").exists():
            self.skipTest("not both")

    def test_two(self):
        pass
"""
COMMAND = [*PYTHON, "-m", "unittest"]


def test_a_joint_tree_with_fewer_tests_than_the_proofs_does_not_ship(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"test_both.py": TESTS})
    agents = {"a": writes(a__txt="a"), "b": writes(b__txt="b")}
    items = [item("a", "a.txt", COMMAND), item("b", "b.txt", COMMAND)]
    report, _ = scene.play(agents, items)
    assert (report["shipped"], verdicts(report)["b"]) == (["a"], "failed")
    assert "together with a" in built(report)["b"]["error"]
    assert "fewer tests ran: 1, on the base 2" in built(report)["b"]["error"]


@pytest.mark.more
def test_tests_that_an_item_may_leave_out_are_missed_by_nobody(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"test_both.py": TESTS})
    agents = {"a": writes(a__txt="a"), "b": writes(b__txt="b")}
    items = [item("a", "a.txt", COMMAND), item("b", "b.txt", COMMAND, fewerTests=1)]
    report, _ = scene.play(agents, items)
    assert report["shipped"] == ["a", "b"]
