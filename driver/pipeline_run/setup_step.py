"""Sets up a workspace by the item's pipeline, besides what `[workspace] setup` does for all."""

from __future__ import annotations

import functools
import time
from dataclasses import replace

from driver.domain.phase_receipt import (
    COMPLETED,
    STALLED,
    TESTER,
    CommandReceipt,
    PhaseReceipt,
)
from driver.domain.prompts import command_text
from driver.domain.results import Verdict
from driver.pipeline.definition import Phase
from driver.pipeline_run.step_log import Started
from driver.policy.judgement import Judgement
from driver.run_state.context import ItemRun
from driver.walls.wall import Role
from driver.workspace.setup import places_to_prepare, run_enclosed, run_setup, shortened


def set_up(item: ItemRun, phase: Phase) -> tuple[PhaseReceipt, Judgement | None]:
    """Run its commands in the workspace, where they may leave nothing that git would ship."""
    started, done, problem = Started(), list[CommandReceipt](), ""
    wave = item.wave
    before = item.workspace.observe().changes
    for command in phase.commands:
        begun = time.monotonic()
        place = item.workspace
        inside = wave.walls.around(Role.SETUP, places_to_prepare(wave.places(place.top)))
        run = functools.partial(run_enclosed, inside, wave.processes)
        said = run_setup(wave.settings, run, wave.key, command, place.workdir, place.environment)
        took = round((time.monotonic() - begun) * 1000)
        text = command_text(command)
        done.append(CommandReceipt(text, None if said else 0, took))
        if said:
            problem = f"set-up command `{text}` failed: {shortened(said)}"
            break
    left = [change.path for change in item.workspace.observe().changes if change not in before]
    if left and not problem:
        remedy = "prepare such files with [workspace] setup, or have git ignore them"
        problem = f"the set-up changed files: {', '.join(left[:20])}: {remedy}"
    receipt = started.receipt(phase, TESTER, STALLED if problem else COMPLETED, reason=problem)
    ended = Judgement(Verdict.UNDECIDED, f"phase {phase.name}: {problem}") if problem else None
    return replace(receipt, commands=tuple(done)), ended
