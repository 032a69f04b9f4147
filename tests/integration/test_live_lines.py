"""Where stderr is no terminal: plain lines with the time, a heartbeat, and marks for GitHub."""

from __future__ import annotations

import io
import os
import re
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from driver.live.board import board
from driver.live.github import command, marks_of
from driver.live.heartbeat import heartbeat
from driver.live.watch import has_screen
from driver.terminal.progress import Progress
from state_store.api import StateAPI
from state_store.views.item_progress import SET_UP
from state_store.views.wave_progress import WaveProgress, fold, read_progress
from tests.support.waves import Agent, Scene, item, writes

GREEN = "test -f a.txt"
ROOT = Path(__file__).resolve().parents[2]


def progress_of(scene: Scene) -> WaveProgress:
    with StateAPI(scene.state / "tracker_events.db") as api:
        return read_progress(api.store, "w1")


def test_the_lines_of_a_wave_have_the_time_and_the_item(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"README": "r"})
    scene.play({"a": writes(a__txt="x")}, [item("a", "a.txt", GREEN)])
    lines = scene.said.getvalue().splitlines()
    told = [re.fullmatch(r"tidegate: \d\d:\d\d:\d\d (.*)", line) for line in lines]
    assert all(told)
    assert "a: verified" in [found.group(1) for found in told if found]


@pytest.mark.more
def test_the_heartbeat_names_the_item_that_is_waited_for(tmp_path: Path) -> None:
    scene, said = Scene(tmp_path, {"README": "r"}), list[str]()

    def looks(agent: Agent) -> None:
        progress = progress_of(scene)
        assert progress.started is not None
        said.append(heartbeat(board(progress, progress.started + 600)))
        agent.write({"a.txt": "x"})

    scene.play({"a": looks}, [item("a", "a.txt", GREEN)])
    assert re.match(
        r"waiting for a \(build \d+:\d\d\); 0 of 1 done, 1 running, no bill yet", said[0]
    )
    done = progress_of(scene)
    assert [span.phase for span in done.items["a"].spans][-3:] == ["build", "test", "shipping"]
    assert (done.tokens, done.cost_usd, done.items["a"].phase) == (100, 0.01, "shipped")
    assert done.finished is not None


SET_UP_THAT_WAITS = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from state_store.api import StateAPI
with StateAPI(sys.argv[1]) as api:
    seen = []
    watch = api.subscribe("wave:w1", seen.append)
    entered = lambda: [e for e in seen if e["type"] == "phase_entered"]
    watch.follow(until=entered, timeout_s=60)
    sys.exit(not entered())
"""


@pytest.mark.more
def test_a_long_set_up_is_an_event_while_it_runs(tmp_path: Path) -> None:
    script, database = tmp_path / "set_up.py", tmp_path / "state" / "tracker_events.db"
    script.write_text(SET_UP_THAT_WAITS, encoding="utf-8")
    line = f"{sys.executable} {script} {database}"
    scene = Scene(tmp_path, {"README": "r"}, config=f'[workspace]\nsetup = ["{line}"]\n')
    report, _ = scene.play({"a": writes(a__txt="x")}, [item("a", "a.txt", GREEN)])
    assert report["built"][0]["verdict"] == "verified"
    assert progress_of(scene).items["a"].spans[0].phase == SET_UP


def test_on_github_red_items_are_marked_and_nothing_else_is_a_command(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"README": "r"}, environ={"GITHUB_ACTIONS": "true"})
    evil = "echo '::error::x'; echo '##[error]x' >&2; exit 1"
    items = [item("a", "a.txt", GREEN), item("b", "b.txt", evil, repairCap=0)]
    scene.play({"a": writes(a__txt="x"), "b": writes(b__txt="y")}, items)
    lines = scene.said.getvalue().splitlines()
    commands = [line for line in lines if line.lstrip().startswith("::")]
    assert commands[0] == "::group::tidegate wave w1"
    assert commands[1] == "::endgroup::"
    assert re.match(r"::error title=tidegate%3A b::failed: test failed with exit 1", commands[2])
    assert len(commands) == 3
    assert not any("##[" in line for line in lines)


HOSTILE = "a\nb::error::%,:\r##[x]"


def test_a_command_cannot_be_ended_by_its_data() -> None:
    made = command("error", HOSTILE, title=HOSTILE)
    assert "\n" not in made
    assert "\r" not in made
    title = made.removeprefix("::error title=").partition("::")[0]
    assert set(title) & set(":,") == set()


def test_every_kind_of_item_that_did_not_come_through_has_its_mark() -> None:
    def ended(slug: str, verdict: str) -> tuple[str, dict[str, Any]]:
        return "item_settled", {"slug": slug, "verdict": verdict, "reason": f"why {slug}"}

    entries = [
        ended("red", "failed"),
        ended("left", "halted"),
        ended("good", "already_green"),
        ("attempt_judged", {"slug": "unshipped", "verdict": "verified"}),
        *(ended(f"many-{n}", "refused") for n in range(12)),
    ]
    rows = [
        {"id": n, "ts": 1.0, "stream": "wave:w", "type": kind, "payload": payload}
        for n, (kind, payload) in enumerate(entries)
    ]
    marks = list(marks_of(fold("w", rows), ships=True))
    assert marks[0] == "::error title=tidegate%3A red::failed: why red"
    assert sum(mark.startswith("::error") for mark in marks) == 10
    assert marks[10:] == [
        "::warning title=tidegate%3A left::halted: why left",
        "::warning title=tidegate%3A unshipped::verified, not shipped",
    ]
    assert len(list(marks_of(fold("w", rows), ships=False))) == 11


@pytest.mark.parametrize("term", ["xterm", "dumb", ""])
def test_only_a_terminal_that_can_be_redrawn_has_a_screen(term: str) -> None:
    master, slave = os.openpty()
    with closing(open(slave, "w", encoding="utf-8")) as stream:  # noqa: PTH123
        assert has_screen(Progress(stream), term) is (term == "xterm")
    os.close(master)
    assert not has_screen(Progress(io.StringIO()), "xterm")
    assert not has_screen(Progress(None), "xterm")
    with Path(os.devnull).open("w", encoding="utf-8") as stream:
        assert not has_screen(Progress(stream), "xterm")
