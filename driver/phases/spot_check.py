"""A green test of some items run again, in a proving tree that no test has seen before."""

from __future__ import annotations

from driver.domain.results import SPOT_CHECK, RunKind, TestRun
from driver.phases.prove import Asked, prove
from driver.policy.acceptance import is_chosen
from driver.run_state.context import Planned, Wave
from driver.terminal.safe_text import run_said
from driver.workspace.repository_context import Bench

_ANSWERS_NO = (RunKind.RED, RunKind.TIMED_OUT, RunKind.KILLED)


def spot_check(
    planned: Planned, place: Bench, tree: str | None, wave: Wave, number: int
) -> tuple[TestRun, ...]:
    """The further runs, none for an item that was not chosen."""
    if not is_chosen(wave.wave_id, planned.slug, planned.policy.spot_check_frac):
        return ()
    return look_again(planned, place, tree, wave, number)


def look_again(
    planned: Planned, place: Bench, tree: str | None, wave: Wave, number: int
) -> tuple[TestRun, ...]:
    """The test once more, and twice where it is not green then; not in place."""
    if tree is None:
        return ()
    runs = [_again(planned, place, tree, wave, f"spot-check-{number}")]
    if runs[0].kind in _ANSWERS_NO:
        runs.append(_again(planned, place, tree, wave, f"spot-check-{number}-again"))
    return tuple(runs)


def _again(planned: Planned, place: Bench, tree: str, wave: Wave, label: str) -> TestRun:
    run = prove(planned, place, tree, wave, Asked(label, SPOT_CHECK, fresh=True))
    wave.recorder.say(f"{planned.slug}: spot check {run_said(run.kind, run.duration_s)}")
    return run
