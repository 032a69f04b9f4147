"""What a wave tells of its evidence, and work that waits for a person."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from driver.reports.summary_lines import summary_lines
from tests.support.beside import beside
from tests.support.interpreter import PYTHON
from tests.support.waves import Scene, built, item, writes

COUNTED = """\
import unittest
import calc
class T(unittest.TestCase):
    def test_one(self): self.assertEqual(calc.one(), 1)
    def test_two(self): pass
"""
LESS = COUNTED.replace("    def test_two(self): pass\n", "")
FILES = {"calc.py": "def one():\n    return 2\n", "test_calc.py": COUNTED, "note.txt": "a\n"}
TEST = [*PYTHON, "-m", "unittest", "-v"]
RIGHT = "def one():\n    return 1\n"


def fixes() -> Any:
    return writes(**{"calc__py": RIGHT})


@beside
def test_the_grade_is_in_the_report_the_commit_and_the_last_lines(folder: Path) -> None:
    scene = Scene(folder, FILES)
    scripts = {"a": fixes(), "c": writes(note__txt="b\n")}
    items = [item("a", "calc.py", TEST), item("c", "note.txt", "true", baseline="green")]
    report, _ = scene.play(scripts, items)
    assert {slug: one["grade"] for slug, one in built(report).items()} == {"a": "A", "c": "C"}
    found = built(report)["a"]["attempts"][-1]["evidence"]
    assert (found["grade"], found["lacks"], found["doubts"]) == ("A", [], [])
    commits = [scene.trailers(commit) for commit in scene.log(report["branch"])]
    assert {one["Item-Slug"]: one["Evidence"] for one in commits} == {"a": "A", "c": "C"}
    assert [one["slug"] for one in report["read_first"]] == ["c"]
    lines = summary_lines(report)
    assert any(line.startswith("read first: c (grade C): ") for line in lines)
    (doubt,) = report["project_doubts"]
    assert doubt["items"] == ["c"]
    assert any(doubt["remedy"] in line for line in lines)


@pytest.mark.more
@beside
def test_a_batch_commit_has_the_grade_of_each_item(folder: Path) -> None:
    scene = Scene(folder, FILES, config='[ship]\ncommit = "batch"\n')
    scripts = {"a": fixes(), "c": writes(note__txt="b\n")}
    items = [item("a", "calc.py", TEST), item("c", "note.txt", "true", baseline="green")]
    report, _ = scene.play(scripts, items)
    (commit,) = scene.log(report["branch"])
    told = scene.repo.git("show", "-s", "--format=%(trailers:key=Evidence,valueonly)", commit)
    assert sorted(told.split()) == ["A", "C"]


@pytest.mark.more
@beside
def test_evidence_below_the_least_grade_waits_and_names_what_is_missing(folder: Path) -> None:
    scene = Scene(folder, FILES, config='[verify]\nmin_grade = "A"\n')
    scripts = {"a": fixes(), "c": writes(note__txt="b\n")}
    items = [item("a", "calc.py", TEST), item("c", "note.txt", "true", baseline="green")]
    report, driver = scene.play(scripts, items)
    assert report["shipped"] == ["a"]
    record = built(report)["c"]
    assert (record["verdict"], record["waitsForPerson"]) == ("undecided", True)
    assert "min_grade" in record["error"]
    assert "does not tell how many tests ran" in record["error"]
    assert len(driver.rounds_of("c")) == 1


@pytest.mark.more
@beside
def test_work_that_waits_is_proven_again_without_an_agent_once_a_person_decided(
    folder: Path,
) -> None:
    scene = Scene(folder, FILES)
    both = {"calc__py": RIGHT, "test_calc__py": LESS}
    owned = ["calc.py", "test_calc.py"]
    first, driver = scene.play({"a": writes(**both)}, [item("a", owned, TEST, repairCap=2)])
    assert built(first)["a"]["waitsForPerson"]
    assert "fewerTests: 1" in built(first)["a"]["error"]
    assert len(driver.requests) == 1
    # Nobody has decided: the same question again, and no agent.
    same, driver = scene.play({}, [item("a", owned, TEST, repairCap=2)], wave_id="w2", resume=True)
    assert built(same)["a"]["waitsForPerson"]
    # The base has moved on meanwhile.
    scene.repo.commit({"other.txt": "x\n"})
    allowed = item("a", owned, TEST, repairCap=2, fewerTests=1)
    done, again = scene.play({}, [allowed], wave_id="w3", resume=True)
    assert done["shipped"] == ["a"]
    assert (driver.requests, again.requests) == ([], [])


@pytest.mark.more
@beside
def test_a_test_of_which_all_is_skipped_on_the_base_as_well_costs_nothing(folder: Path) -> None:
    skips = COUNTED.replace("class T", "@unittest.skip('no server')\nclass T")
    scene = Scene(folder, {**FILES, "test_calc.py": skips})
    report, driver = scene.play({"a": fixes()}, [item("a", "calc.py", TEST, repairCap=2)])
    record = built(report)["a"]
    assert (record["verdict"], record["waitsForPerson"]) == ("undecided", True)
    assert "no test ran" in record["error"]
    assert "on the base as well" in record["error"]
    assert len(driver.requests) == 1


@pytest.mark.more
@beside
def test_output_that_vanished_is_held_against_the_work_whatever_the_runner_is(
    folder: Path,
) -> None:
    loud = "import calc\nfor n in range(50): print('ok', n)\n"
    scene = Scene(folder, {**FILES, "check.py": loud})
    quits = writes(calc__py="import sys\nsys.exit(0)\n")
    report, _ = scene.play({"a": quits}, [item("a", "calc.py", [*PYTHON, "check.py"], repairCap=0)])
    assert report["shipped"] == []
    assert "50 lines on the base, and nothing with this change" in built(report)["a"]["error"]


OLD = """\
import unittest
class Old(unittest.TestCase):
    def test_service(self): self.fail('no service here')
    def test_fine(self): pass
"""
WHOLE = [*PYTHON, "-m", "unittest", "discover"]
SUITE = {**FILES, "test_old.py": OLD}


@pytest.mark.more
@beside
def test_a_suite_that_stays_red_as_on_the_base_waits_and_names_what_was_red(folder: Path) -> None:
    scene = Scene(folder, SUITE)
    report, driver = scene.play({"a": fixes()}, [item("a", "calc.py", WHOLE, repairCap=2)])
    record = built(report)["a"]
    assert (record["verdict"], record["waitsForPerson"]) == ("undecided", True)
    assert "red on the base as well: " in record["error"]
    assert "test_service" in record["error"]
    assert "known_red" in record["error"]
    assert len(driver.requests) == 1


@pytest.mark.more
@beside
def test_an_agent_that_leaves_its_own_test_red_is_told_what_was_red_before(folder: Path) -> None:
    scene = Scene(folder, SUITE)
    wrong = writes(calc__py="def one():\n    return 3\n")
    report, driver = scene.play({"a": [wrong, fixes()]}, [item("a", "calc.py", WHOLE, repairCap=1)])
    assert "red on the base as well: " in driver.rounds_of("a")[1].prompt
    assert built(report)["a"]["waitsForPerson"]  # the other suite is red still


@pytest.mark.more
@beside
def test_tests_that_a_project_knows_to_be_red_may_stay_red_and_no_others(folder: Path) -> None:
    scene = Scene(folder, SUITE, config='[verify]\nknown_red = ["test_service*"]\n')
    items = [
        item("a", "calc.py", WHOLE, repairCap=0),
        item("b", "note.txt", WHOLE, repairCap=0),
        item("c", "fine.py", WHOLE, repairCap=0),
    ]
    scripts = {"a": fixes(), "b": writes(note__txt="b\n"), "c": writes(fine__py="1\n")}
    report, _ = scene.play(scripts, items)
    # Only the first turns the other test green, which the project does not name.
    assert report["shipped"] == ["a"]
    record = built(report)["a"]
    assert (record["grade"], record["testExit"]) == ("B", 1)
    assert all("red on the base as well" in built(report)[slug]["error"] for slug in "bc")
    found = record["attempts"][-1]["evidence"]
    assert found["canary"] == "red"
    assert any("known_red" in one for one in found["lacks"])
    proofs = [run for run in found["receipts"] if run["purpose"] == "proof"]
    assert len(proofs[0]["knownRed"]) == 1


@pytest.mark.more
@beside
def test_items_beside_each_other_may_leave_known_tests_red_together(folder: Path) -> None:
    files = {**SUITE, "test_calc.py": COUNTED.replace("calc.one(), 1", "calc.one(), 2")}
    scene = Scene(folder, files, config='[verify]\nknown_red = ["test_service*"]\n')
    scripts = {"a": writes(calc__py="def one():\n    return 1 + 1\n"), "b": writes(note__txt="b\n")}
    items = [item("a", "calc.py", WHOLE), item("b", "note.txt", WHOLE)]
    report, _ = scene.play(scripts, items)
    assert sorted(report["shipped"]) == ["a", "b"]
