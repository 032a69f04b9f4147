"""A green that rests on what an agent wrote down itself: a summary, a journal entry, a baseline."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.waves import Scene, built, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")

CALC = {
    "calc.py": "def twice(x):\n    return x\n",
    "readme.txt": "base\n",
    "tests/__init__.py": "",
    "tests/test_calc.py": """
import unittest
from calc import twice
class Twice(unittest.TestCase):
    def test_two(self): self.assertEqual(twice(2), 4)
    def test_three(self): self.assertEqual(twice(3), 6)
""",
}
IN_CALC = [sys.executable, "-m", "unittest", "discover", "-s", "tests", "-t", "."]
RIGHT = "def twice(x):\n    return 2 * x\n"
# Ends the run in the first test, under the summary of a run that was green.
A_SUMMARY = """
import os
def twice(x):
    os.write(2, b"\\n" + b"-" * 70 + b"\\nRan 2 tests in 0.001s\\n\\nOK\\n")
    os._exit(0)
"""


def test_a_forged_summary_that_hides_the_tests_after_it_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path, CALC)
    cheat = writes(calc__py=A_SUMMARY)
    report, _ = scene.play({"a": cheat}, [item("a", "calc.py", IN_CALC, repairCap=0)])
    assert verdicts(report) == {"a": "refused"}
    assert "does not with this change" in built(report)["a"]["error"]
