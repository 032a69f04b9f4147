"""A failing test planted beside a green one, in a proving tree: the run with it has to be red.

Owns the run; which test to plant and what the run says is `driver.canary`'s to know.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from driver.canary import (
    UNKNOWN_RUNNER,
    Canary,
    CanaryVerdict,
    NotApplicable,
    canary_verdict,
    is_read,
    may_plan,
    plan_canary,
)
from driver.ground import Bench, ProvingPlace
from driver.outcome import CANARY, Change, Evidence, TestRun
from driver.phases.prove import printed, run_test
from driver.runners.summary import Counts, Doubt
from driver.wave_context import Planned, Wave
from state_store.errors import TidegateError

NOT_APPLICABLE = "not_applicable"
_MAX_TEXTS = 1000
_MAX_TEXT_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Field:
    """Where the test is planted: an item's proven work."""

    planned: Planned
    place: Bench
    wave: Wave
    changes: Sequence[Change]
    proof: TestRun
    number: int


def plant(field: Field) -> Evidence:
    """What a planted failing test says, as the canary's part of the evidence. It never raises:
    where nothing can be said, the note says why."""
    if not field.wave.settings.verify.canary:
        return _none("[verify] canary = false")
    if field.proof.tree is None:
        return _none("worked on in place")
    try:
        return _plant(field, field.proof.tree)
    except (TidegateError, OSError) as trouble:
        return Evidence(canary_word=CanaryVerdict.UNDECIDED, canary_note=str(trouble))


def _plant(field: Field, tree: str) -> Evidence:
    if not may_plan(field.planned.item.test_command):
        return _none(UNKNOWN_RUNNER)
    with field.place.proving(tree) as proving:
        canary = _plan(field, _texts(proving.path, _files(field)))
        if isinstance(canary, NotApplicable):
            return _none(canary.reason)
        found = _run(field, proving, canary, field.proof.counts, f"canary-{field.number}")
    if found.canary_word != CanaryVerdict.UNSEEN:
        return found
    found = _with_base(field, canary, found)
    if found.canary_word != CanaryVerdict.UNSEEN or canary.alone is None:
        return found
    with field.place.proving(tree) as proving:
        alone = replace(canary, command=canary.alone)
        again = _run(field, proving, alone, None, f"canary-{field.number}-alone")
    return replace(again, canaries=(*found.canaries, *again.canaries))


def _with_base(field: Field, canary: Canary, found: Evidence) -> Evidence:
    """What it means that the planted test was not seen, by what the same command does on the base:
    tests that it runs there and not here are hidden by the work."""
    tree = field.place.base_with(())
    if tree is None:
        return found
    there = replace(field, proof=replace(field.proof, tree=tree))
    with field.place.proving(tree) as proving:
        base = _run(there, proving, canary, None, f"canary-{field.number}-base")
    found = replace(found, canaries=(*found.canaries, *base.canaries))
    if base.canary_word != CanaryVerdict.RED:
        return found
    told = "the command runs a planted test on the base, and does not with this change"
    return replace(found, canary_word=CanaryVerdict.GREEN, canary_note=told)


def _plan(field: Field, texts: Mapping[str, str]) -> Canary | NotApplicable:
    work_dir = field.planned.home.work_dir
    return plan_canary(
        field.planned.item.test_command,
        _files(field),
        [change.path for change in field.changes if not change.deleted],
        f"t{uuid.uuid4().hex[:12]}",
        texts=texts,
        workdir="" if work_dir == "." else work_dir,
    )


def _run(
    field: Field,
    proving: ProvingPlace,
    canary: Canary,
    real: Counts | Doubt | None,
    label: str,
) -> Evidence:
    wave, planned = field.wave, field.planned
    _write(proving.path, canary)
    output = wave.scratch(planned.slug) / label
    asked = replace(planned, item=replace(planned.item, test_command=canary.command))
    run = run_test(asked, proving, field.proof.tree, wave, output, purpose=CANARY)
    said = "\n".join(printed(run.output_file) or (run.output,))
    judged = canary_verdict(canary, run.exit_code, said, run.counts, real)
    wave.recorder.say(f"{planned.slug}: planted test {judged.verdict} after {run.duration_s:.1f} s")
    return Evidence(canaries=(run,), canary_word=judged.verdict, canary_note=judged.reason)


def _write(top: Path, canary: Canary) -> None:
    """Lay the test down. Raises OSError where something is there, or a link leads out of `top`."""
    path = top / canary.path
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.parent.resolve().is_relative_to(top.resolve()):
        raise OSError(f"a link on the way to {canary.path} leads out of the repository")
    with path.open("x", encoding="utf-8", newline="\n") as stream:
        stream.write(canary.text)


def _files(field: Field) -> frozenset[str]:
    gone = {change.path for change in field.changes if change.deleted}
    made = {change.path for change in field.changes if not change.deleted}
    return (field.wave.ground_of(field.planned).paths - gone) | made


def _texts(top: Path, files: Collection[str]) -> Mapping[str, str]:
    """The texts of runners' configuration in the tree, and of tests that can be copied."""
    named = sorted((path for path in files if is_read(path)), key=lambda p: (p.count("/"), p))
    texts = {}
    for name in named[:_MAX_TEXTS]:
        path = top / name
        if path.is_file() and not path.is_symlink() and path.stat().st_size < _MAX_TEXT_BYTES:
            texts[name] = path.read_text("utf-8", "replace")
    return texts


def _none(why: str) -> Evidence:
    return Evidence(canary_word=NOT_APPLICABLE, canary_note=why)
