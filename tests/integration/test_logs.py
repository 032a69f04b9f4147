"""`tidegate logs`: the events of a wave in words, and the outputs of an item, safe to print."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from driver.cli import logs
from driver.cli.log_lines import FileTail
from driver.execution.process_identity import identity
from state_store.api import StateAPI
from tests.support.programs import ROOT, Ran, run_here

pytestmark = pytest.mark.in_walls

PROGRAM = ROOT / "driver" / "tidegate.py"
WAVE = "wave:w1-aaaa"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[StateAPI]:
    """A store with a wave of two items, one of which has outputs."""
    with StateAPI(tmp_path / "state" / "tracker_events.db") as api:
        api.append("tracker", "item_created", {"id": "T-1", "slug": "cart", "status": "todo"})
        api.append("wave:w0", "wave_started", {"wave_id": "w0", "items": ["old"]})
        api.append(WAVE, "wave_started", {"wave_id": "w1-aaaa", "items": ["cart", "price"]})
        api.append(WAVE, "attempt_started", {"slug": "cart", "number": 1, "phase": "build"})
        for wave in ("w0", "w1-aaaa"):
            bill = {"agent_id": "x", "wave": wave, "item": "cart", "phase": "build"}
            api.append("agent_traces", "agent_billed", {**bill, "tokens": 1200, "cost_usd": 0.5})
        judged = {"slug": "cart", "number": 1, "verdict": "failed", "reason": "red \x1b[2J"}
        api.append(WAVE, "attempt_judged", judged)
        api.append(WAVE, "item_shipped", {"slug": "price", "commit": "c" * 40})
        folder = item_folder(tmp_path)
        (folder / "agent-1").mkdir(parents=True)
        written(folder / "agent-1" / "agent.out", "hello\n\x1b]0;owned\x07::error::x\n", 1)
        written(folder / "test-1.out", "".join(f"line {at}\n" for at in range(300)), 2)
        (folder / "linked.out").symlink_to("/etc/hostname")
        yield api


def item_folder(top: Path) -> Path:
    return top / "state" / "runs" / "w1-aaaa" / "cart"


def written(path: Path, text: str, at: float) -> None:
    path.write_text(text)
    os.utime(path, (at, at))


def looked(folder: Path, *words: str) -> Ran:
    return run_here(PROGRAM, "logs", *words, cwd=folder)


def told(done: Ran) -> list[str]:
    """The lines without their times."""
    return [line.partition(" ")[2] for line in done.out.splitlines() if line[2:3] == ":"]


def test_the_newest_wave_is_told_in_words(api: StateAPI, tmp_path: Path) -> None:
    done = looked(tmp_path)
    assert (done.code, done.err) == (0, "")
    assert told(done) == [
        "wave w1-aaaa begins: 2 items",
        "cart: build started (attempt 1)",
        "cart: build used 1k tokens, $0.50",
        "cart: failed: red \\x1b[2J",
        "price: shipped as cccccccccccc",
    ]
    assert told(looked(tmp_path, "--wave", "w0"))[0] == "wave w0 begins: 1 item"


@pytest.mark.parametrize("name", ["cart", "T-1"])
def test_an_item_shows_its_events_and_the_ends_of_its_outputs(
    api: StateAPI, tmp_path: Path, name: str
) -> None:
    out = looked(tmp_path, name, "--lines", "2").out
    assert "price: shipped" not in out
    outputs = out[out.index("== ") :].splitlines()
    assert outputs == [
        "== agent-1/agent.out ==",
        "hello",
        "\\x1b]0;owned\\x07::error::x",
        "== test-1.out ==",
        "[... 298 lines before; --lines 0 shows all ...]",
        "line 298",
        "line 299",
    ]
    assert looked(tmp_path, name, "--lines", "0").out.count("line ") == 300


def test_the_document_has_the_same_lines(api: StateAPI, tmp_path: Path) -> None:
    found = json.loads(looked(tmp_path, "T-1", "--json").out)
    assert (found["schema"], found["wave_id"], found["item"]) == (
        "tidegate/logs/1",
        "w1-aaaa",
        "cart",
    )
    assert found["lines"] == looked(tmp_path, "cart").out.splitlines()


def test_headings_have_a_color_for_people_only(api: StateAPI, tmp_path: Path) -> None:
    shown = looked(tmp_path, "cart", "--color", "always").out
    assert "\x1b[36m== agent-1/agent.out ==\x1b[0m\n" in shown
    found = json.loads(looked(tmp_path, "cart", "--color", "always", "--json").out)
    assert "== agent-1/agent.out ==" in found["lines"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["crat"], "did you mean cart?"),
        (["--wave", "x"], "there is no wave x"),
        (["--wave", "w"], "several waves begin with w"),
        (["-f", "--json"], "--follow is for people"),
        (["--lines", "-1"], "--lines is 0 or more"),
    ],
)
def test_what_is_not_there_is_one_sentence(
    api: StateAPI, tmp_path: Path, words: list[str], why: str
) -> None:
    done = looked(tmp_path, *words)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert why in done.err


def test_without_a_run_there_are_no_logs(tmp_path: Path) -> None:
    done = looked(tmp_path)
    assert done.code == 2
    assert "no run has begun" in done.err
    assert not (tmp_path / "state").exists()


def test_follow_goes_on_until_the_run_is_gone(api: StateAPI, tmp_path: Path) -> None:
    me = identity(os.getpid())
    assert me is not None
    record: dict[str, Any] = {"wave_id": "w1-aaaa", "pid": me.pid, "host": None}
    record |= {key: getattr(me, key) for key in ("started", "boot", "numbered_by")}
    running = item_folder(tmp_path).parent / "run.json"
    running.write_text(json.dumps(record))
    output = item_folder(tmp_path) / "test-2.out"
    steps: Iterator[Callable[[], object]] = iter(
        [
            lambda: output.write_text("whole\nhalf"),
            lambda: output.write_text("whole\nhalf line\n"),
            lambda: api.append(WAVE, "wave_finished", {"aborted": False, "abort_reason": None}),
            running.unlink,
        ]
    )

    def step() -> None:
        next(steps)()

    log = logs.Log(api.store, "w1-aaaa", "cart", 1)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert logs.follow(log, step) == 0
    lines = out.getvalue().splitlines()
    assert lines[-1].endswith(" wave ended")
    at = lines.index("== test-2.out ==")
    assert lines[at + 1 : at + 3] == ["whole", "half line"]
    assert next(steps, None) is None


def test_a_tail_follows_no_link_and_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.out"
    path.write_bytes(b"one\ntw")
    tail = FileTail(path, None)
    assert list(tail.more(last=False)) == ["one"]
    assert list(tail.more(last=True)) == ["tw"]
    (tmp_path / "b.out").symlink_to(path)
    assert list(FileTail(tmp_path / "b.out", None).more()) == []
    assert list(FileTail(tmp_path / "gone.out", None).more()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pipe with a name")
def test_a_pipe_in_place_of_an_output_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.out")
    assert list(FileTail(tmp_path / "a.out", None).more()) == []
