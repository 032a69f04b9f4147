"""What a test leaves running is a finding; what an agent leaves running is a note."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from driver.backends.command import CommandDriver
from tests.support.beside import beside
from tests.support.waves import Scene, built, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names come from /proc")

A_GOOD = "grep -q good a.txt"
TEST = ["sh", "t.sh"]
LEAVES = "sleep 97 >/dev/null 2>&1 & "
ALLOWED = '[verify]\nsurvivors = "allow"\n'


def scene_of(tmp_path: Path, config: str = "", *, test: str = "") -> Scene:
    return Scene(tmp_path, {"a.txt": "base\n", "t.sh": f"{test}\n{A_GOOD}\n"}, config=config)


@beside
def test_a_test_that_leaves_a_process_running_is_red_and_names_it(folder: Path) -> None:
    scene = scene_of(folder)
    agent = writes(a__txt=f"{LEAVES}\n")
    report, _ = scene.play({"a": agent}, [item("a", "a.txt", ["sh", "a.txt"], repairCap=0)])
    record = built(report)["a"]
    assert (record["verdict"], report["shipped"]) == ("failed", [])
    assert record["error"].startswith("left processes running: sleep 97 (")
    [proof] = [r for r in _receipts(record) if r["purpose"] == "proof"]
    assert (proof["exit"], proof["kind"]) == (0, "red")
    assert proof["survivors"][0].startswith("sleep 97 (")


def _receipts(record: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = record["attempts"][-1]["evidence"]["receipts"]
    return found


@pytest.mark.more
@beside
def test_the_agent_is_told_what_its_test_left_running(folder: Path) -> None:
    scene = scene_of(folder)
    rounds = [writes(a__txt=f"{LEAVES}\n"), writes(a__txt="exit 0\n")]
    report, driver = scene.play({"a": rounds}, [item("a", "a.txt", ["sh", "a.txt"], repairCap=1)])
    assert report["shipped"] == ["a"]
    told = driver.rounds_of("a")[1].prompt
    assert "The test command succeeded, but it does not count." in told
    assert "left processes running: sleep 97 (" in told


@pytest.mark.more
@pytest.mark.parametrize(
    "ends", ["sleep 0.2 &", "sleep 97 & kill $!", "(sleep 0.1; sleep 0.1) >/dev/null &"]
)
@beside
def test_what_ends_by_itself_or_was_ended_counts_against_nobody(folder: Path, ends: str) -> None:
    scene = scene_of(folder, test=ends)
    report, _ = scene.play({"a": writes(a__txt="good\n")}, [item("a", "a.txt", TEST)])
    assert report["shipped"] == ["a"]


@pytest.mark.more
@beside
def test_a_test_that_leaves_processes_on_the_base_too_blames_no_work(folder: Path) -> None:
    scene = scene_of(folder, test=LEAVES)
    agent = writes(a__txt="good\n")
    items = [item("a", "a.txt", TEST, baseline="green")]
    report, driver = scene.play({"a": agent}, items)
    assert verdicts(report) == {"a": "undecided"}
    assert "[verify] survivors" in built(report)["a"]["error"]
    assert len(driver.rounds_of("a")) == 1


@pytest.mark.more
@beside
def test_where_survivors_are_allowed_they_are_written_down(folder: Path) -> None:
    scene = scene_of(folder, ALLOWED, test=LEAVES)
    report, _ = scene.play({"a": writes(a__txt="good\n")}, [item("a", "a.txt", TEST)])
    assert report["shipped"] == ["a"]
    assert all(receipt["survivors"] for receipt in _receipts(built(report)["a"]))


@pytest.mark.more
@beside
def test_what_an_agent_leaves_running_is_ended_and_noted(folder: Path) -> None:
    scene = scene_of(folder)
    agent = ("sh", "-c", f"{LEAVES}echo good > a.txt")
    driver = CommandDriver(agent, environ=scene.environ)
    report = scene.run(driver, [item("a", "a.txt", A_GOOD, requireAdversarialReview=False)])
    [attempt] = built(report)["a"]["attempts"]
    assert report["shipped"] == ["a"]
    assert attempt["survivors"][0].startswith("sleep 97 (")
    assert "left processes running, now ended: sleep 97" in scene.said.getvalue()
