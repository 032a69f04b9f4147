"""What a pipeline leaves behind that is played again: its recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from driver.backend_api.driver import WorkerResult
from driver.backends.recording import RecordingWriter
from driver.backends.replay import ReplayDriver
from tests.support.pipelines import GATE, GOOD, IMPLEMENT, PR, PUBLISH, QUIET, REVIEW, says
from tests.support.waves import Scene, ScriptedDriver, Step, built, item, writes

DOCS = {"name": "docs", "kind": "agent", "writes": ["*.md"]}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, {"base.txt": "x\n"}, config=QUIET)


def one(*phases: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    given = {"repairCap": 1, "spotCheckFrac": 0, "pipeline": list(phases)}
    return item("a", ["a.txt", "README.md"], "grep -q good a.txt", **{**given, **more})


def played(
    scene: Scene, steps: Sequence[Step], made: Mapping[str, Any], **more: Any
) -> tuple[dict[str, Any], ScriptedDriver]:
    return scene.play({"a": steps}, [made], **more)


def test_a_recorded_pipeline_is_replayed(scene: Scene, tmp_path: Path) -> None:
    recording = RecordingWriter(tmp_path / "wave.jsonl")
    steps = [
        writes(a__txt="bad\n"),
        writes(a__txt="good but\n"),
        says("request_changes"),
        GOOD,
        says(),
        writes(README__md="told\n"),
        lambda agent: WorkerResult("", ok=True, text="What it does"),
    ]
    made = one(IMPLEMENT, GATE, REVIEW, DOCS, PR, PUBLISH, repairCap=3)
    lived, _ = played(scene, steps, made, recording=recording)
    replay = ReplayDriver(recording.path, environ=scene.environ, match="item", tier=3)
    told = Scene(tmp_path / "again", {"base.txt": "x\n"}, config=QUIET).run(replay, [made])
    assert told["shipped"] == lived["shipped"] == ["a"]
    assert built(told)["a"]["tree"] == built(lived)["a"]["tree"]
