"""What a halted attempt counts for when the wave goes on: nothing, for it was no agent's fault."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from driver.backend_api.driver import FAILURE_CANCELLED, WorkerResult
from driver.wave_loop import run_wave
from tests.support.beside import beside_on
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
from tools import halt

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="test commands for a POSIX shell")


on_scene = beside_on(lambda folder: nullcontext(Scene(folder, {"a.txt": "base\n"})))


@on_scene
def test_an_agent_that_cannot_be_ended_is_left_behind_and_costs_no_attempt(scene: Scene) -> None:
    come_back = threading.Event()

    def hangs(agent: Agent) -> None:
        agent.write({"a.txt": "bad\n"})
        halt.halt("enough", scene.state)
        come_back.wait(PATIENCE_S)

    hard = replace(scene.settings, limits=replace(scene.settings.limits, halt_grace_s=0.4))
    items = [item("a", "a.txt", "grep -q good a.txt", repairCap=0)]
    began = time.monotonic()
    try:
        report, _ = scene.play({"a": hangs}, items, settings=hard)
    finally:
        come_back.set()
    assert time.monotonic() - began < PATIENCE_S / 2
    assert (report["abort_reason"], verdicts(report)) == ("halted", {"a": "halted"})
    assert "did not end in time" in built(report)["a"]["error"]
    halt.clear_halt(scene.state)
    report = _resumed(scene, {"a": writes(a__txt="good\n")}, items)
    assert report["shipped"] == ["a"]


@pytest.mark.more
@on_scene
def test_a_halted_repair_is_not_counted_and_those_before_it_are(scene: Scene) -> None:
    def halted(agent: Agent) -> WorkerResult:
        agent.write({"a.txt": "worse\n"})
        halt.halt("enough", scene.state)
        return WorkerResult("", failure=FAILURE_CANCELLED, error="ended")

    items = [item("a", "a.txt", "grep -q good a.txt", repairCap=1)]
    report, _ = scene.play({"a": [writes(a__txt="bad\n"), halted]}, items)
    assert [a["verdict"] for a in built(report)["a"]["attempts"]] == ["failed", "halted"]
    halt.clear_halt(scene.state)
    report = _resumed(scene, {"a": writes(a__txt="bad\n")}, items)
    attempts = [(a["number"], a["phase"]) for a in built(report)["a"]["attempts"]]
    assert attempts == [(1, "resume"), (2, "repair")]


def _resumed(
    scene: Scene, scripts: Mapping[str, Any], items: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    return run_wave(
        ScriptedDriver(scripts, environ=scene.environ),
        {"wave_id": "w2", "items": list(items)},
        state_dir=scene.state,
        git={"expectTopLevel": str(scene.repo.path), "mode": "branch"},
        resume_journal=True,
        options=scene.options(),
    )
