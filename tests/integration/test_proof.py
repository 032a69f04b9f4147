"""What makes a green believable: protected files, baselines, receipts, spot checks, canaries."""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from state_store.api import StateAPI
from state_store.database.events import ATTEMPT_JUDGED, wave_stream
from state_store.write_api import STATE_DB_FILENAME
from tests.support.beside import beside, beside_on
from tests.support.interpreter import PYTHON
from tests.support.waves import Agent, Scene, built, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="test commands for a POSIX shell")

FILES = {
    "a.txt": "base\n",
    "pkg/value.txt": "base\n",
    "pkg/tests/check.sh": "grep -q good pkg/value.txt\n",
}
CHECK = ["sh", "pkg/tests/check.sh"]


on_scene = beside_on(lambda folder: nullcontext(Scene(folder, FILES)))


# Protected files


@on_scene
def test_a_test_changed_by_who_owns_its_folder_is_refused_and_named(scene: Scene) -> None:
    def cheats(agent: Agent) -> None:
        agent.write({"pkg/tests/check.sh": "exit 0\n"})

    report, driver = scene.play({"a": [cheats, cheats]}, [item("a", ["pkg/"], CHECK)])
    record = built(report)["a"]
    assert (record["verdict"], report["shipped"]) == ("refused", [])
    assert "pkg/tests/check.sh (an existing test)" in record["error"]
    assert "protected files" in driver.rounds_of("a")[1].prompt


@pytest.mark.more
@on_scene
def test_a_refused_agent_that_puts_the_test_back_ships(scene: Scene) -> None:
    def cheats(agent: Agent) -> None:
        agent.write({"pkg/tests/check.sh": "exit 0\n"})

    def repents(agent: Agent) -> None:
        agent.write({"pkg/tests/check.sh": FILES["pkg/tests/check.sh"]})
        agent.write({"pkg/value.txt": "good\n"})

    report, _ = scene.play({"a": [cheats, repents]}, [item("a", ["pkg/"], CHECK)])
    assert report["shipped"] == ["a"]


@pytest.mark.more
@on_scene
def test_a_test_that_is_listed_by_name_is_the_items_to_change(scene: Scene) -> None:
    def both(agent: Agent) -> None:
        agent.write({"pkg/tests/check.sh": "grep -q fine pkg/value.txt\n"})
        agent.write({"pkg/value.txt": "fine\n"})

    report, _ = scene.play({"a": both}, [item("a", ["pkg/", "pkg/tests/check.sh"], CHECK)])
    assert report["shipped"] == ["a"]


@pytest.mark.more
@beside
def test_patterns_of_the_config_protect_more_files(folder: Path) -> None:
    config = '[verify]\nprotected = ["value.*"]\n'
    scene = Scene(folder, FILES, config=config)
    report, _ = scene.play({"a": [writes(), writes()]}, [item("a", ["pkg/"], CHECK)])
    assert verdicts(report) == {"a": "no_change"}

    def writes_it(agent: Agent) -> None:
        agent.write({"pkg/value.txt": "good\n"})

    report, _ = scene.play({"a": [writes_it] * 2}, [item("a", ["pkg/"], CHECK)], wave_id="w2")
    assert verdicts(report) == {"a": "refused"}


# The test on the base

GOOD = ["grep", "-q", "good", "a.txt"]
GREEN_ANYWAY = ["grep", "-q", ".", "a.txt"]
STRICT = '[verify]\nred_first = "require"\n'


def evidence(report: dict[str, Any], slug: str = "a") -> dict[str, Any]:
    """What the item's last attempt rests on."""
    found: dict[str, Any] = built(report)[slug]["attempts"][-1]["evidence"]
    return found


def receipts(report: dict[str, Any], purpose: str, slug: str = "a") -> list[dict[str, Any]]:
    return [r for r in evidence(report, slug)["receipts"] if r["purpose"] == purpose]


@on_scene
def test_the_test_is_run_on_the_base_as_well(scene: Scene) -> None:
    report, _ = scene.play({"a": writes(a__txt="good\n")}, [item("a", "a.txt", GOOD)])
    assert (report["shipped"], evidence(report)["baseline"]) == (["a"], "red")
    [base], [proof] = receipts(report, "baseline"), receipts(report, "proof")
    assert (base["exit"], proof["exit"]) == (1, 0)
    assert base["tree"] == scene.repo.git("rev-parse", "main^{tree}")
    assert proof["tree"] == scene.repo.git("rev-parse", f"{report['sha']}^{{tree}}")
    assert base["base"] == proof["base"] == scene.repo.git("rev-parse", "main")


@pytest.mark.more
@on_scene
def test_a_green_base_is_recorded_and_ships(scene: Scene) -> None:
    report, _ = scene.play({"a": writes(a__txt="good\n")}, [item("a", "a.txt", GREEN_ANYWAY)])
    assert (report["shipped"], evidence(report)["baseline"]) == (["a"], "green")


@on_scene
def test_where_nothing_had_to_be_done_the_item_is_already_green(scene: Scene) -> None:
    report, driver = scene.play({"a": writes()}, [item("a", "a.txt", GREEN_ANYWAY)])
    record = built(report)["a"]
    assert (record["verdict"], len(driver.requests), report["exit_code"]) == ("already_green", 1, 1)


@pytest.mark.more
@on_scene
def test_a_refactoring_that_changed_nothing_is_not_done(scene: Scene) -> None:
    refactor = item("a", "a.txt", GREEN_ANYWAY, baseline="green")
    report, _ = scene.play({"a": [writes(), writes(a__txt="new\n")]}, [refactor])
    assert (report["shipped"], built(report)["a"]["repairs"]) == (["a"], 1)


@pytest.mark.more
@pytest.mark.parametrize(("test", "broke_it"), [(["grep", "-q", "base", "a.txt"], 1), (GOOD, 0)])
@on_scene
def test_a_regression_is_told_from_a_test_that_never_was_green(
    scene: Scene, test: list[str], broke_it: int
) -> None:
    scripts = {"a": [writes(a__txt="wrong\n"), writes(a__txt="still\n")]}
    report, driver = scene.play(scripts, [item("a", "a.txt", test)])
    assert built(report)["a"]["error"].count("a regression") == broke_it
    assert driver.rounds_of("a")[1].prompt.count("a regression") == broke_it


@beside
def test_required_to_be_red_first_a_green_base_ships_nothing(folder: Path) -> None:
    scene = Scene(folder, FILES, config=STRICT)
    items = [
        item("a", "a.txt", GREEN_ANYWAY),
        item("b", "b.txt", GREEN_ANYWAY, baseline="green"),
        item("c", "c.txt", ["test", "-f", "c.txt"]),
        item("d", "d.txt", ["test", "-f", "d.txt"], baseline="green"),
    ]
    scripts = {slug: writes(**{f"{slug}__txt": "new\n"}) for slug in "abcd"}
    report, driver = scene.play(scripts, items)
    assert report["shipped"] == ["b", "c"]
    assert (built(report)["a"]["verdict"], len(driver.rounds_of("a"))) == ("undecided", 1)
    assert "does not prove the change" in built(report)["a"]["error"]
    assert built(report)["d"]["verdict"] == "undecided"


@pytest.mark.more
@beside
def test_tests_of_the_works_own_have_to_be_red_without_the_work(folder: Path) -> None:
    files = {
        "run.sh": "for t in tests/*.sh; do sh $t || exit 1; done\n",
        "tests/old.sh": "exit 0\n",
    }
    scene = Scene(folder, {**files, "src/a.txt": "base\n"}, config=STRICT)
    suite = item("a", ["src/", "tests/"], ["sh", "run.sh"])
    idle = {"src/a.txt": "good\n", "tests/new.sh": "exit 0\n"}
    real = {**idle, "tests/new.sh": "grep -q good src/a.txt\n"}
    report, driver = scene.play(
        {"a": [lambda agent: agent.write(idle), lambda agent: agent.write(real)]}, [suite]
    )
    assert report["shipped"] == ["a"]
    first, last = built(report)["a"]["attempts"]
    assert first["verdict"] == "refused"
    assert "add a test that is red without the change" in driver.rounds_of("a")[1].prompt
    assert [r["kind"] for r in last["evidence"]["receipts"]] == [
        *("green", "green", "red"),
        "green",  # without the test that it adds
    ]


@pytest.mark.more
@beside
def test_a_base_that_cannot_be_tested_stops_nobody(folder: Path) -> None:
    scene = Scene(folder, FILES, config=STRICT)
    test = ["./new.sh"]

    def makes(agent: Agent) -> None:
        agent.write({"new.sh": "#!/bin/sh\nexit 0\n"})
        (agent.folder / "new.sh").chmod(0o755)

    report, _ = scene.play({"a": makes}, [item("a", "new.sh", test)])
    assert (report["shipped"], evidence(report)["baseline"]) == (["a"], "could_not_run")


@pytest.mark.more
@beside
def test_switched_off_nothing_runs_on_the_base(folder: Path) -> None:
    scene = Scene(folder, FILES, config='[verify]\nred_first = "off"\n')
    seen = folder / "seen"
    report, _ = scene.play(
        {"a": writes(a__txt="good\n")}, [item("a", "a.txt", f"cat a.txt >> {seen}")]
    )
    assert report["shipped"] == ["a"]
    assert seen.read_text() == "good\n"
    assert "off" in evidence(report)["baselineNote"]


@pytest.mark.more
@on_scene
def test_one_baseline_serves_all_items_of_a_wave_and_no_later_wave(scene: Scene) -> None:
    seen = scene.folder / "seen"
    test = f"cat a.txt b.txt >> {seen}"
    scripts = {slug: writes(**{f"{slug}__txt": "new\n"}) for slug in "ab"}
    nowhere = {"expectTopLevel": str(scene.repo.path), "mode": "branch"}
    scene.repo.write({"b.txt": "b\n"})
    scene.repo.git("add", "--all")
    scene.repo.git("commit", "-q", "-m", "b")
    items = [item(slug, f"{slug}.txt", test) for slug in "ab"]
    report, _ = scene.play(scripts, items, git=nowhere)
    assert len(report["shipped"]) == 2
    assert seen.read_text().count("base\nb\n") == 1
    again, _ = scene.play(scripts, items, git=nowhere, wave_id="w2")
    assert seen.read_text().count("base\nb\n") == 2
    assert [r["cached"] for r in receipts(again, "baseline")] == [False]
    assert not (scene.state / "baselines.json").exists()


@pytest.mark.more
@on_scene
def test_in_place_there_is_no_base_to_test(scene: Scene) -> None:
    folder = scene.folder / "plain"
    folder.mkdir()
    (folder / "a.txt").write_text("base\n")
    report, _ = scene.play(
        {"a": writes(a__txt="good\n")},
        [item("a", "a.txt", GOOD, workDir=str(folder))],
        git={"mode": "none"},
    )
    assert built(report)["a"]["verified"]
    assert "in place" in evidence(report)["baselineNote"]


# Receipts


@pytest.mark.more
@on_scene
def test_a_receipt_says_what_ran_where_and_with_what(scene: Scene) -> None:
    report, _ = scene.play(
        {"a": writes(a__txt="good\n")}, [item("a", "a.txt", "echo said; echo err >&2; cat a.txt")]
    )
    [proof] = receipts(report, "proof")
    assert proof["outputDigest"] == hashlib.sha256(b"said\ngood\nerr\n").hexdigest()
    assert Path(proof["outputFile"]).read_text() == "said\ngood\n"
    assert {"PATH", "HOME"} <= set(proof["environment"])
    assert (proof["sandbox"], proof["kind"], proof["command"][:9]) == ("none", "green", "echo said")


@pytest.mark.more
@on_scene
def test_receipts_are_in_journal_events_and_report(scene: Scene) -> None:
    report, _ = scene.play(
        {"a": writes(a__txt="good\n"), "c": writes(c__txt="good\n")},
        [item("a", "a.txt", GOOD), item("c", "c.txt", ["grep", "-q", "good", "c.txt"])],
    )
    journal = json.loads((scene.state / "journal" / "c.json").read_text())
    assert journal["evidence"] == evidence(report, "c")
    [together] = built(report)["c"]["together"]
    assert journal["together"] == [together]
    assert together["tree"] == scene.repo.git("rev-parse", f"{report['sha']}^{{tree}}")
    assert (together["purpose"], together["exit"]) == ("integration", 0)
    with StateAPI(scene.state / STATE_DB_FILENAME) as api:
        events = api.store.read(wave_stream("w1"))
    told = [e["payload"]["evidence"] for e in events if e["type"] == ATTEMPT_JUDGED]
    assert {json.dumps(one) for one in told} == {
        json.dumps(evidence(report, slug)) for slug in "ac"
    }


# Spot checks

ALWAYS = {"spotCheckFrac": 1}


@pytest.mark.more
@on_scene
def test_a_spot_check_runs_in_a_place_that_no_test_has_seen(scene: Scene) -> None:
    seen = scene.folder / "seen"
    report, _ = scene.play(
        {"a": writes(a__txt="good\n")},
        [item("a", "a.txt", f"pwd >> {seen} && grep -q good a.txt", **ALWAYS)],
    )
    assert report["shipped"] == ["a"]
    assert (built(report)["a"]["spotChecked"], built(report)["a"]["flaky"]) == (True, False)
    [proof], [check] = receipts(report, "proof"), receipts(report, "spot_check")
    assert (proof["tree"], check["kind"]) == (check["tree"], "green")
    places = seen.read_text().split()
    assert places[-1] not in places[:-1]


def flaky_test(scene: Scene) -> str:
    """Red on the base, green the first time with the work, then red."""
    been = scene.folder / "been"
    return f"grep -q good a.txt && test ! -e {been} && touch {been}"


@pytest.mark.more
@on_scene
def test_different_answers_for_one_tree_do_not_ship(scene: Scene) -> None:
    report, driver = scene.play(
        {"a": writes(a__txt="good\n")}, [item("a", "a.txt", flaky_test(scene), **ALWAYS)]
    )
    record = built(report)["a"]
    assert (record["verdict"], report["shipped"], len(driver.requests)) == ("flaky", [], 1)
    assert record["spot_check_failed"]
    assert [r["kind"] for r in receipts(report, "spot_check")] == ["red", "red"]
    assert record["error"].startswith("different answers for one tree: green, then red")


@pytest.mark.more
@beside
def test_flaky_work_ships_where_that_is_allowed_and_the_report_says_so(folder: Path) -> None:
    scene = Scene(folder, FILES, config='[verify]\nflake_policy = "allow"\n')
    report, _ = scene.play(
        {"a": writes(a__txt="good\n")}, [item("a", "a.txt", flaky_test(scene), **ALWAYS)]
    )
    record = built(report)["a"]
    assert (report["shipped"], record["flaky"]) == (["a"], True)
    assert "flaky, but allowed" in record["attempts"][-1]["reason"]


# Counts

THREE = """\
import unittest
class T(unittest.TestCase):
    def test_a(self): self.assertTrue(open('a.txt').read())
    def test_b(self): pass
    def test_c(self): pass
"""
TWO = THREE.replace("    def test_c(self): pass\n", "")
SKIPPING = THREE.replace("    def test_c", "    @unittest.skip('later')\n    def test_c")
EMPTY = "import unittest\n"
UNITTEST = [*PYTHON, "-m", "unittest", "tests.test_it"]


on_counted = beside_on(
    lambda folder: nullcontext(Scene(folder, {"a.txt": "a\n", "tests/test_it.py": THREE}))
)


def _leaves(test: str) -> dict[str, Any]:
    return {"a": [lambda agent: agent.write({"tests/test_it.py": test, "a.txt": "b\n"})] * 2}


def _tests_too(**more: Any) -> dict[str, Any]:
    return item("a", ["a.txt", "tests/test_it.py"], UNITTEST, repairCap=0, **more)


@pytest.mark.more
@pytest.mark.parametrize(
    ("test", "told", "leave"),
    [
        (TWO, "fewer tests ran: 2, on the base 3", {"fewerTests": 1}),
        (SKIPPING, "fewer tests ran: 2, on the base 3", {"fewerTests": 1, "moreSkipped": 1}),
    ],
)
@on_counted
def test_with_fewer_tests_than_the_base_a_person_is_asked_unless_it_is_meant(
    counted: Scene, test: str, told: str, leave: dict[str, int]
) -> None:
    report, driver = counted.play(_leaves(test), [_tests_too() | {"repairCap": 2}])
    record = built(report)["a"]
    assert (record["verdict"], record["waitsForPerson"]) == ("undecided", True)
    assert told in record["error"]
    assert len(driver.requests) == 1
    report, _ = counted.play(_leaves(test), [_tests_too(**leave)], wave_id="w2")
    assert report["shipped"] == ["a"]


@pytest.mark.more
@on_counted
def test_an_agent_is_told_that_its_green_does_not_count(counted: Scene) -> None:
    again = {"tests/test_it.py": THREE, "a.txt": "b\n"}
    scripts = {"a": [_leaves(EMPTY)["a"][0], lambda agent: agent.write(again)]}
    report, driver = counted.play(scripts, [{**_tests_too(), "repairCap": 1}])
    assert report["shipped"] == ["a"]
    assert "succeeded, but it does not count" in driver.rounds_of("a")[1].prompt
    assert "no test ran" in driver.rounds_of("a")[1].prompt


@pytest.mark.more
@on_scene
def test_where_no_test_ran_nothing_is_proven(scene: Scene) -> None:
    none = {"a.txt": f"\n{'-' * 70}\nRan 0 tests in 0.000s\n\nOK\n"}
    report, _ = scene.play(
        {"a": lambda agent: agent.write(none)},
        [item("a", "a.txt", "cat a.txt >&2", repairCap=0)],
    )
    assert verdicts(report) == {"a": "refused"}
    assert "no test ran" in built(report)["a"]["error"]


@pytest.mark.more
@on_counted
def test_counts_are_in_the_receipts(counted: Scene) -> None:
    report, _ = counted.play({"a": writes(a__txt="b\n")}, [item("a", "a.txt", UNITTEST)])
    found = [r["counts"] for r in evidence(report)["receipts"]]
    counts = {"runner": "unittest", "ran": 3, "failed": 0, "skipped": 0, "source": "printed"}
    assert found[:2] == [counts] * 2
    nobody = item("a", "a.txt", "true")
    report, _ = counted.play({"a": writes(a__txt="b\n")}, [nobody], wave_id="w3")
    assert [r["counts"] for r in evidence(report)["receipts"]] == [None, None]


@pytest.mark.more
@pytest.mark.parametrize("test", ["false || true", "sleep 1 &", ["sh", "-c", "false | true"]])
@on_scene
def test_a_command_that_can_hide_a_red_test_is_refused_before_anything_is_spent(
    scene: Scene, test: Any
) -> None:
    report, driver = scene.play({}, [item("a", "a.txt", test)])
    assert (report["abort_reason"], report["exit_code"]) == ("invalid_manifest", 2)
    assert driver.requests == []
    assert "testCmd" in report["problems"][0]


# Planted tests

APP = {
    "app.py": "VALUE = 1\n",
    "tests/__init__.py": "",
    "tests/test_app.py": (
        "import unittest\nimport app\n"
        "class T(unittest.TestCase):\n"
        "    def test_value(self): self.assertEqual(app.VALUE, 2)\n"
    ),
}
DISCOVER = [*PYTHON, "-m", "unittest", "discover", "-s", "tests", "-t", "."]


on_app = beside_on(lambda folder: nullcontext(Scene(folder, APP)))


def _writes_app(text: str) -> dict[str, Any]:
    return {"a": lambda agent: agent.write({"app.py": text})}


@pytest.mark.more
@on_app
def test_a_failing_test_planted_beside_the_real_ones_turns_an_honest_run_red(app: Scene) -> None:
    report, _ = app.play(_writes_app("VALUE = 2\n"), [item("a", "app.py", DISCOVER)])
    assert (report["shipped"], evidence(report)["canary"]) == (["a"], "red")
    [planted] = receipts(report, "canary")
    assert planted["kind"] == "red"
    assert planted["counts"]["failed"] > 0
    tree = app.repo.git("ls-tree", "-r", "--name-only", report["sha"]).split()
    assert sorted(tree) == sorted(APP)


@pytest.mark.more
@on_app
def test_the_run_with_a_planted_test_is_the_spot_check_in_a_new_place(app: Scene) -> None:
    seen = app.folder / "seen"
    where = f"import pathlib; pathlib.Path({str(seen)!r}).open('a').write('%s\\n' % __file__)\n"
    report, _ = app.play(
        _writes_app(f"{where}VALUE = 2\n"), [item("a", "app.py", DISCOVER, **ALWAYS)]
    )
    found = evidence(report)
    assert (report["shipped"], found["canary"], found["spotChecked"]) == (["a"], "red", True)
    assert receipts(report, "spot_check") == []
    proof, planted = seen.read_text().split()[:2]
    assert proof != planted
    assert found["lacks"] == []


@pytest.mark.more
@pytest.mark.parametrize(
    "command",
    [
        f"{shlex.join(DISCOVER)} && true",  # the end of the command does not run beside the canary
        ["env", "A=1", *DISCOVER],
    ],
)
def test_only_the_runner_alone_is_spot_checked_by_a_planted_test(
    tmp_path: Path, command: str | list[str]
) -> None:
    app = Scene(tmp_path, APP)
    report, _ = app.play(_writes_app("VALUE = 2\n"), [item("a", "app.py", command, **ALWAYS)])
    found = evidence(report)
    assert (report["shipped"], found["canary"], found["spotChecked"]) == (["a"], "red", True)
    assert [r["kind"] for r in receipts(report, "spot_check")] == ["green"]


@pytest.mark.more
@on_app
def test_tests_that_write_to_the_tree_beside_the_planted_test_are_run_again(app: Scene) -> None:
    writes = "import pathlib; top = pathlib.Path('app.py'); top.write_bytes(top.read_bytes())\n"
    report, _ = app.play(
        _writes_app(f"{writes}VALUE = 2\n"), [item("a", "app.py", DISCOVER, **ALWAYS)]
    )
    assert [r["kind"] for r in receipts(report, "spot_check")] == ["green"]


@pytest.mark.more
@pytest.mark.parametrize(
    "cheat",
    [
        "import os, sys\nsys.stderr.write('\\n' + '-' * 70 + '\\nRan 1 test in 0.1s\\n\\nOK\\n')\n"
        "sys.stderr.flush()\nos._exit(0)\n",
        "import unittest\nVALUE = 3\nunittest.TestCase.assertEqual = lambda *a: None\n",
        "import unittest\nVALUE = 3\n"
        "unittest.TestCase._callTestMethod = lambda self, method: None\n",
    ],
    ids=["prints a summary and leaves", "asserts do nothing", "tests do nothing"],
)
@on_app
def test_code_that_makes_its_runner_lie_is_refused(app: Scene, cheat: str) -> None:
    report, _ = app.play(_writes_app(cheat), [item("a", "app.py", DISCOVER, repairCap=0)])
    assert verdicts(report) == {"a": "refused"}
    assert "canary passed" in built(report)["a"]["error"]


@pytest.mark.more
@on_scene
def test_where_no_runner_is_known_nothing_is_planted_and_that_is_said(scene: Scene) -> None:
    report, _ = scene.play({"a": writes(a__txt="good\n")}, [item("a", "a.txt", GOOD)])
    found = evidence(report)
    assert (found["canary"], receipts(report, "canary")) == ("not_applicable", [])
    assert "no runner" in found["canaryNote"]


@pytest.mark.more
@beside
def test_switched_off_nothing_is_planted(folder: Path) -> None:
    scene = Scene(folder, APP, config="[verify]\ncanary = false\n")
    report, _ = scene.play(_writes_app("VALUE = 2\n"), [item("a", "app.py", DISCOVER)])
    assert (report["shipped"], evidence(report)["canary"]) == (["a"], "not_applicable")
