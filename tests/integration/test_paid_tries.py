"""Tries that were paid: each is booked at once, asks every gate, and counts in the end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from driver.backend_api.driver import AgentDriver
from driver.backends.claude_code import ClaudeCodeDriver
from driver.backends.codex_cli import CodexCliDriver
from driver.backends.command import CommandDriver
from driver.backends.openai_compatible import OpenAICompatibleDriver
from driver.scheduler.context import CycleRequest
from driver.scheduler.cycle import run
from driver.wave_loop import run_wave
from tests.support.beside import beside
from tests.support.interpreter import PYTHON
from tests.support.processes import patient
from tests.support.raw_server import USED, RawServer, says
from tests.support.waves import Scene, built, item, verdicts

SLUGS = ("one", "two", "three")
ITEMS = [item(slug, f"{slug}.txt", f"test -s {slug}.txt") for slug in SLUGS]
INIT = {"type": "system", "subtype": "init", "model": "claude-haiku-4-5"}
ANSWER = {
    "type": "assistant",
    "message": {"id": "m", "usage": {"input_tokens": 70_000, "output_tokens": 30}},
}
CUT_OFF = {
    "type": "result",
    "subtype": "success",
    "is_error": True,
    "result": "API Error: Connection closed",
    "total_cost_usd": 42,
    "usage": {"input_tokens": 1000, "output_tokens": 50},
}
UNHEARD_OF = {
    "type": "result",
    "is_error": True,
    "result": "Your licence for this product has to be renewed",
    "total_cost_usd": 0,
    "usage": {"input_tokens": 0, "output_tokens": 0},
}

AGENT = """
import json, os, sys, time
from pathlib import Path
here = Path(__file__)
plan = json.loads(here.with_suffix(".json").read_text())
sys.stdin.read()
slug = os.environ["TIDEGATE_ITEM"]
with here.with_suffix(".runs").open("a") as runs:
    runs.write(slug + "\\n")
for line in plan["lines"]:
    print(json.dumps(line), flush=True)
if plan.get("writes"):
    Path(slug + ".txt").write_text(str(time.time()))
if plan.get("hangs"):
    time.sleep(60)
sys.exit(plan.get("exit", 1))
"""


class Program:
    """An agent program that prints lines and ends, and how often it was started."""

    def __init__(self, folder: Path, *lines: Mapping[str, Any], **more: Any) -> None:
        self._script = folder / "agent.py"
        self._script.write_text(AGENT, encoding="utf-8")
        plan = json.dumps({"lines": list(lines), **more})
        self._script.with_suffix(".json").write_text(plan, encoding="utf-8")

    @property
    def command(self) -> tuple[str, ...]:
        return (*PYTHON, str(self._script))

    @property
    def runs(self) -> list[str]:
        seen = self._script.with_suffix(".runs")
        return seen.read_text(encoding="utf-8").split() if seen.exists() else []


def scene_of(folder: Path, **limits: object) -> Scene:
    lines = [f"{key} = {json.dumps(value)}" for key, value in limits.items()]
    return Scene(folder, {"README": "x"}, config="\n".join(["[limits]", *lines, ""]))


def one_cycle(scene: Scene, driver: AgentDriver, items: Sequence[Mapping[str, Any]]) -> Any:
    """The item's record in the tracker after a cycle."""
    tracker = scene.folder / "tracker.json"
    todo = [{"id": i["slug"].upper(), "status": "todo", **i} for i in items]
    tracker.write_text(json.dumps({"items": todo}), encoding="utf-8")
    asked = CycleRequest(tracker, 8, driver=driver, state_dir=scene.state, options=scene.options())
    report = run(asked, run_wave)
    return report, json.loads(tracker.read_text(encoding="utf-8"))["items"]


def spent(report: Mapping[str, Any]) -> float:
    return float(report["budget"]["wave"]["usd"]["spent"])


@beside
def test_a_paid_try_that_was_cut_off_asks_the_ceiling_before_it_is_repeated(folder: Path) -> None:
    program = Program(folder, INIT, ANSWER, CUT_OFF)
    scene = scene_of(folder, max_wave_usd=50, max_workers=1)
    driver = ClaudeCodeDriver(program=program.command, environ=scene.environ)
    report, (tracked, _) = one_cycle(scene, driver, ITEMS[:2])
    assert program.runs == ["one"]
    assert spent(report["wave"]) == 42
    assert (tracked["attempts"], tracked["status"]) == (1, "todo")
    assert "Connection closed" in tracked["lastError"]
    assert "not tried again" in tracked["lastError"]
    assert verdicts(report["wave"]) == {"one": "failed", "two": "over_budget"}


@pytest.mark.more
@beside
def test_a_paid_try_is_repeated_once_and_then_counts_as_an_attempt(folder: Path) -> None:
    program = Program(folder, INIT, ANSWER, CUT_OFF)
    scene = scene_of(folder, max_wave_usd=5000)
    driver = ClaudeCodeDriver(program=program.command, environ=scene.environ)
    report, (tracked,) = one_cycle(scene, driver, ITEMS[:1])
    assert program.runs == ["one", "one"]
    assert spent(report["wave"]) == 84
    assert (tracked["attempts"], tracked["status"]) == (1, "todo")
    assert "84.00 USD" in tracked["lastError"]
    wave = report["wave"]
    assert wave["repairsUsed"] == 0
    assert (wave["tokens"]["costUsd"], wave["tokens"]["totalIn"]) == (84, 2000)


@pytest.mark.more
@beside
def test_each_try_is_a_row_of_its_own_in_the_ledger(folder: Path) -> None:
    program = Program(folder, INIT, ANSWER, CUT_OFF)
    scene = scene_of(folder)
    driver = ClaudeCodeDriver(program=program.command, environ=scene.environ)
    report = scene.run(driver, ITEMS[:1])
    rows = (scene.state / "ledger" / "OUTCOMES-LEDGER.md").read_text(encoding="utf-8")
    assert rows.count("| build |") == 2, rows
    assert report["budget"]["wave"]["dispatches"]["spent"] == 2


@pytest.mark.more
@pytest.mark.parametrize("use", [{"input_tokens": 900_000, "output_tokens": 100}])
@beside
def test_a_turn_that_codex_paid_counts_though_the_next_was_cut_off(
    folder: Path, use: Mapping[str, int]
) -> None:
    lines: list[dict[str, Any]] = [
        {"type": "thread.started"},
        {"type": "turn.completed", "usage": use},
        {"type": "turn.started"},
        {"type": "turn.failed", "error": {"message": "stream disconnected before completion"}},
    ]
    program = Program(folder, *lines)
    scene = scene_of(folder, max_wave_tokens=1_000_000)
    driver = CodexCliDriver(program=program.command, environ=scene.environ)
    report = scene.run(driver, ITEMS[:1])
    assert program.runs == ["one"]
    assert verdicts(report) == {"one": "failed"}
    assert report["budget"]["wave"]["tokens"]["spent"] >= 900_100


@pytest.mark.more
@beside
def test_a_command_that_told_its_use_is_repeated_once(folder: Path) -> None:
    tokens = {"input": 10, "output": 5, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    lines: list[dict[str, Any]] = [
        {"type": "step_finish", "part": {"tokens": tokens, "cost": 7}},
        {"type": "error", "error": {"data": {"message": "socket hang up", "statusCode": 503}}},
    ]
    program = Program(folder, *lines)
    scene = scene_of(folder)
    driver = CommandDriver(program.command, output="opencode", environ=scene.environ)
    report = scene.run(driver, ITEMS[:1])
    assert (program.runs, verdicts(report)) == (["one", "one"], {"one": "failed"})
    assert report["tokens"]["costUsd"] == 14


@pytest.mark.more
@beside
def test_an_unusable_answer_of_a_server_asks_the_ceiling_before_the_next(folder: Path) -> None:
    with RawServer([says("no JSON here", {**USED, "cost": 0.6})]) as server:
        scene = scene_of(folder, max_wave_usd=0.5, allow_unpriced=True)
        driver = OpenAICompatibleDriver(server.url, "m", environ=scene.environ)
        report, (tracked,) = one_cycle(scene, driver, ITEMS[:1])
        assert server.calls == 1
    assert verdicts(report["wave"]) == {"one": "over_budget"}  # no repair could begin
    assert "not asked again" in report["wave"]["built"][0]["attempts"][0]["reason"]
    assert spent(report["wave"]) == 0.6
    assert tracked["attempts"] == 1


@pytest.mark.more
@beside
def test_agents_that_do_nothing_park_the_backend_after_two_items(folder: Path) -> None:
    program = Program(folder, INIT, UNHEARD_OF)
    scene = scene_of(folder, max_workers=1)
    driver = ClaudeCodeDriver(program=program.command, environ=scene.environ)
    report, tracked = one_cycle(scene, driver, ITEMS)
    wave = report["wave"]
    assert program.runs == ["one", "two"]
    assert verdicts(wave) == {"one": "undecided", "two": "undecided", "three": "halted"}
    assert [found.get("attempts", 0) for found in tracked] == [0, 0, 0]
    assert (wave["abort_reason"], wave["exit_code"]) == ("parked", 3)
    assert "licence" in wave["error"]


@pytest.mark.more
@beside
def test_an_agent_that_changed_a_file_did_something(folder: Path) -> None:
    program = Program(folder, INIT, UNHEARD_OF, writes=True)
    scene = scene_of(folder, max_workers=1)
    driver = ClaudeCodeDriver(program=program.command, environ=scene.environ)
    assert verdicts(scene.run(driver, ITEMS)) == dict.fromkeys(SLUGS, "failed")


@pytest.mark.more
@beside
def test_an_agent_that_loops_is_repeated_once_and_its_limit_is_named(folder: Path) -> None:
    program = Program(folder, INIT, ANSWER, hangs=True)
    scene = scene_of(folder)
    driver = ClaudeCodeDriver(
        program=program.command, environ=scene.environ, timeout_s=patient(1.5)
    )
    report = scene.run(driver, ITEMS[:1])
    assert program.runs == ["one", "one"]
    assert verdicts(report) == {"one": "failed"}
    assert "[backend] timeout_s" in built(report)["one"]["error"]
    assert report["tokens"]["unmetered"] == 2
    assert report["tokens"]["total"] == 140_060  # by the answers so far


@pytest.mark.more
@beside
def test_an_agent_at_its_turns_is_repeated_once_and_the_setting_is_named(folder: Path) -> None:
    ended = {**CUT_OFF, "subtype": "error_max_turns", "result": "", "errors": ["50 turns"]}
    program = Program(folder, INIT, ANSWER, ended)
    scene = scene_of(folder)
    driver = ClaudeCodeDriver(program=program.command, environ=scene.environ)
    report = scene.run(driver, ITEMS[:1])
    assert (program.runs, verdicts(report)) == (["one", "one"], {"one": "failed"})
    assert "[backend] max_turns" in built(report)["one"]["error"]
