"""A run that is killed while its agent is at work, as power cuts and OOM killers do it."""

from __future__ import annotations

import subprocess
from typing import Any

from tests.support import warm
from tests.support.interpreter import PYTHON
from tests.support.processes import carrying_any, eventually
from tests.support.programs import LOOP, Project, environment, item

PATIENCE_S = 120.0


def half_done(project: Project, name: str, text: str = "half") -> dict[str, Any]:
    """An item whose agent writes its file, tells it and then hangs."""
    told = project.home / f"told-{name}"
    prompt = (
        f"DO pathlib.Path('{name}.txt').write_text({text!r}); "
        f"pathlib.Path({str(told)!r}).touch(); time.sleep(600)"
    )
    return item(name, prompt=prompt)


def kill_a_run(project: Project, *names: str, wave_id: str = "killed") -> None:
    """Start a wave of `half_done` items, and kill it with its agents at work. Its supervisors have
    ended the agents when this returns."""
    manifest = project.manifest(*(half_done(project, n) for n in names), wave_id=wave_id)
    flags = ["--git", "--manifest", manifest, *project.places()]
    with warm.start(
        [*PYTHON, str(LOOP), *map(str, flags)],
        cwd=project.home,
        env=environment(project.home),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as program:
        try:
            told = [project.home / f"told-{name}" for name in names]
            assert eventually(lambda: all(path.exists() for path in told), PATIENCE_S)
        finally:
            program.kill()
    assert eventually(lambda: not _at_work(wave_id), PATIENCE_S)


def _at_work(wave_id: str) -> list[int]:
    return carrying_any(f"TIDEGATE_RUN={wave_id}@")
