"""A green that rests on what an agent wrote down itself: a summary, a journal entry, a baseline."""

from __future__ import annotations

import hashlib
import json
import sys
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from driver.wave_loop import run_wave
from tests.support.beside import beside
from tests.support.interpreter import PYTHON
from tests.support.waves import (
    PATIENCE_S,
    Agent,
    Scene,
    ScriptedDriver,
    built,
    item,
    verdicts,
    writes,
)

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
IN_CALC = [*PYTHON, "-m", "unittest", "discover", "-s", "tests", "-t", "."]
RIGHT = "def twice(x):\n    return 2 * x\n"
WRONG = "def twice(x):\n    return 666 if x > 99 else 2 * x\n"
PRIVATE = Path("private.git", "objects")
# Ends the run in the first test, under the summary of a run that was green.
A_SUMMARY = """
import os
def twice(x):
    os.write(2, b"\\n" + b"-" * 70 + b"\\nRan 2 tests in 0.001s\\n\\nOK\\n")
    os._exit(0)
"""


@beside
def test_a_forged_summary_that_hides_the_tests_after_it_is_refused(folder: Path) -> None:
    scene = Scene(folder, CALC)
    cheat = writes(calc__py=A_SUMMARY)
    report, _ = scene.play({"a": cheat}, [item("a", "calc.py", IN_CALC, repairCap=0)])
    assert verdicts(report) == {"a": "refused"}
    assert "but not with this change" in built(report)["a"]["error"]


@pytest.mark.more
@beside
def test_a_forged_journal_entry_has_to_pass_all_that_other_work_has(folder: Path) -> None:
    scene = Scene(folder, CALC)
    cheating = item("a", "calc.py", IN_CALC, repairCap=0)
    first, _ = scene.play({"a": writes(calc__py=A_SUMMARY)}, [cheating])
    assert verdicts(first) == {"a": "refused"}
    entry = scene.state / "journal" / "a.json"
    forged = json.loads(entry.read_text(encoding="utf-8"))
    receipts = built(first)["a"]["attempts"][0]["evidence"]["receipts"]
    tree = next(run["tree"] for run in receipts if run["purpose"] == "proof")
    entry.write_text(json.dumps(forged | {"verdict": "verified", "tree": tree}))
    # The forged work is proven like any other; the next run builds anew.
    for verdict, asked in (("refused", 0), ("failed", 1)):
        driver = ScriptedDriver({"a": writes(calc__py="def twice(x): return 1\n")})
        report = run_wave(
            driver,
            {"wave_id": "w1", "items": [cheating]},
            state_dir=scene.state,
            git={"expectTopLevel": str(scene.repo.path), "mode": "branch"},
            options=scene.options(),
            resume_journal=True,
        )
        assert (verdicts(report), len(driver.requests)) == ({"a": verdict}, asked)
        assert report["shipped"] == []


def _fewer_tests(agent: Agent) -> None:
    tests = (agent.folder / "tests" / "test_calc.py").read_text(encoding="utf-8")
    agent.write({"calc.py": RIGHT, "tests/test_calc.py": tests.split("    def test_three")[0]})


@pytest.mark.more
@beside
def test_a_baseline_that_an_agent_writes_down_is_not_read(folder: Path) -> None:
    scene = Scene(folder, CALC)
    wrong = writes(calc__py="def twice(x): return 1\n")
    scene.play({"a": wrong}, [item("a", "calc.py", IN_CALC, repairCap=0)], wave_id="w1")

    def forger(agent: Agent) -> None:
        agent.write({"readme.txt": "good\n"})
        forged = {"version": 1, "runs": {"x": {"at": time.time(), "receipt": {"counts": 1}}}}
        (scene.state / "baselines.json").write_text(json.dumps(forged), encoding="utf-8")

    test = "grep -q good readme.txt"
    scene.play({"b": forger}, [item("b", "readme.txt", test, repairCap=0)], wave_id="w2")
    owned = ["calc.py", "tests/test_calc.py"]
    report, _ = scene.play(
        {"c": _fewer_tests}, [item("c", owned, IN_CALC, repairCap=0)], wave_id="w3"
    )
    assert (verdicts(report), report["shipped"]) == ({"c": "undecided"}, [])
    assert "fewer tests ran" in built(report)["c"]["error"]


@pytest.mark.more
@beside
def test_an_object_laid_down_under_the_name_of_the_work_is_not_believed(folder: Path) -> None:
    scene = Scene(folder, CALC)
    wrong = "def twice(x):\n    return x  # done\n"
    report = _with_forged(scene, wrong, RIGHT, lambda agent: agent.folder.parents[1] / PRIVATE)
    assert (verdicts(report), report["shipped"]) == ({"a": "failed"}, [])


@pytest.mark.more
@beside
def test_what_ships_is_what_was_tested_whatever_lies_under_its_name(folder: Path) -> None:
    scene = Scene(folder, CALC)
    report = _with_forged(scene, RIGHT, WRONG, lambda agent: agent.folder.parents[1] / PRIVATE)
    assert report["shipped"] == ["a"]
    assert scene.repo.git("show", f"{report['branch']}:calc.py") == RIGHT.strip()


@pytest.mark.more
@beside
def test_nothing_ships_where_the_users_repository_has_another_object_of_its_name(
    folder: Path,
) -> None:
    scene = Scene(folder, CALC)
    report = _with_forged(scene, RIGHT, WRONG, lambda _: scene.repo.path / ".git" / "objects")
    assert report["shipped"] == []
    assert "COLLISION" in report["shipped_repos"][0]["error_detail"]


def _with_forged(
    scene: Scene, written: str, forged: str, objects: Callable[[Agent], Path]
) -> dict[str, Any]:
    """A wave whose agent lays down an object with the id of what it has `written`."""

    def agent(agent: Agent) -> None:
        agent.write({"calc.py": written})
        name = hashlib.sha1(f"blob {len(written)}\0{written}".encode()).hexdigest()
        laid = objects(agent) / name[:2] / name[2:]
        laid.parent.mkdir(exist_ok=True)
        laid.write_bytes(zlib.compress(f"blob {len(forged)}\0{forged}".encode()))

    return scene.play({"a": agent}, [item("a", "calc.py", IN_CALC, repairCap=0)])[0]


@pytest.mark.more
@beside
def test_no_agent_helps_the_proof_of_another_item(folder: Path) -> None:
    scene = Scene(folder, CALC)

    def helper(agent: Agent) -> None:
        proving = agent.folder.parents[1] / "proving"
        deadline = time.monotonic() + PATIENCE_S
        while not (scene.state / "runs/w1/a/canary-1.out").exists():
            assert time.monotonic() < deadline
            for tree in proving.glob("[0-9]*"):
                with suppress(OSError):
                    (tree / "calc").mkdir(exist_ok=True)
                    (tree / "calc" / "__init__.py").write_text(RIGHT)
            time.sleep(0.001)

    agents = {"a": writes(calc__py="def twice(x): return x\n"), "b": helper}
    items = [item("a", "calc.py", IN_CALC, repairCap=0), item("b", "b.txt", "false", repairCap=0)]
    report, _ = scene.play(agents, items)
    # A changed checkout says nothing about the work, so the item may be without a verdict.
    assert verdicts(report)["a"] in {"flaky", "failed", "undecided"}
    assert report["shipped"] == []
