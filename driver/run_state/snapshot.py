"""Write down, once a wave, what it is run with (`pipeline.captured` has the shape)."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from driver.domain.prompts import command_text
from driver.pipeline.definition import Pipeline, digest_of, to_json
from driver.pipeline.snapshot_shape import canonical, document
from driver.run_state.context import Wave
from driver.run_state.plan import Planned
from state_store.documents.errors import TidegateError
from state_store.documents.files import write_json_atomic

FILE = "snapshot.json"


def take_snapshot(wave: Wave) -> None:
    """Keep the snapshot beside what the wave's agents print; that of an earlier run of the wave
    stays. A disk that is full is no reason not to work."""
    path = wave.run_dir / FILE
    if path.exists():
        return
    with suppress(TidegateError):
        write_json_atomic(path, _taken(wave))


def _taken(wave: Wave) -> dict[str, Any]:
    phase_backends = [p for p in (wave.reviewer, *wave.phase_backends.values()) if p is not None]
    drivers = {wave.driver.name: wave.driver} | {p.driver.name: p.driver for p in phase_backends}
    return document(
        capturedAt=datetime.now(UTC).isoformat(timespec="seconds"),
        runId=wave.wave_id,
        bases=[
            {"repo": str(g.repository.top), "commit": g.base, "branch": g.repository.branch}
            for g in wave.repositories.values()
        ],
        resolvedConfig=canonical(wave.settings),
        pipelines=_pipelines(wave.plan),
        promptHashes=_prompt_hashes(wave),
        gateDefinitions={
            p.slug: [*map(command_text, (p.item.test_command, *p.pipeline.commands))]
            for p in wave.plan
        },
        hermetic=_hermetic(wave),
        engines={name: driver.describe() for name, driver in drivers.items()},
        tidegateVersion=_version(),
        environment={
            "pythonVersion": platform.python_version(),
            "platform": "-".join((platform.system(), platform.release(), platform.machine())),
            "cwd": str(Path.cwd()),
        },
        runDirectory=str(wave.run_dir),
    )


def _hermetic(wave: Wave) -> dict[str, str]:
    """The walls around agents and tests; `host` for none."""
    level = wave.walls.name if wave.walls.closed else "host"
    return {"agents": level if wave.walls.agents_inside else "host", "tests": level}


def _pipelines(plan: tuple[Planned, ...]) -> Mapping[str, Any]:
    """Each pipeline once, by its hash, with the items that go through it."""
    found: dict[str, Pipeline] = {p.pipeline.config_hash: p.pipeline for p in plan}
    return {
        key: {
            "explicit": one.explicit,
            "items": [p.slug for p in plan if p.pipeline.config_hash == key],
            "phases": [{**canonical(to_json(phase)), "name": phase.name} for phase in one.phases],
        }
        for key, one in found.items()
    }


def _prompt_hashes(wave: Wave) -> dict[str, str]:
    """The digest of each prompt file, as it is in the commit that its item starts from."""
    named = {
        (phase.prompt, item.planned.home.key): item.context.text(phase.prompt)
        for item in wave.items
        for phase in item.pipeline.phases
        if phase.prompt is not None
    }
    return {path: digest_of(text) for (path, _), text in named.items()}


def _version() -> str | None:
    try:
        return metadata.version("tidegate")
    except metadata.PackageNotFoundError:  # straight from a checkout
        return None
