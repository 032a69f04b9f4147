"""A failing test planted beside a green one, in a proving tree: the run with it has to be red.

Owns the run; which test to plant and what the run says is `driver.canary`'s to know.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from driver.domain.results import CANARY, Change, Evidence, RunKind, TestRun
from driver.run_state.context import ItemRun
from driver.runners.canary import (
    UNKNOWN_RUNNER,
    Canary,
    CanaryVerdict,
    NotApplicable,
    canary_verdict,
    innocent_name,
    is_read,
    may_plan,
    plan_canary,
)
from driver.runners.result import Counts, Doubt
from driver.verification.test_run import Test, printed, run_on
from driver.workspace.repository_context import TestCheckout
from state_store.documents.errors import TidegateError

NOT_APPLICABLE = "not_applicable"
_TAKE_LONG = (RunKind.TIMED_OUT, RunKind.CANCELLED)
_MAX_TEXT_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Field:
    """Where the test is planted: an item's proven work."""

    item: ItemRun
    changes: Sequence[Change]
    proof: TestRun
    number: int


class _Texts(Mapping[str, str]):
    """The texts of a tree's files that can matter for the planted test, read when asked for."""

    def __init__(self, top: Path, files: Collection[str]) -> None:
        self._top = top
        self._names = {name for name in files if is_read(name)}
        self._read: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._read:
            text = _text(self._top / name) if name in self._names else None
            if text is None:
                raise KeyError(name)
            self._read[name] = text
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def run_canary(field: Field) -> Evidence:
    """What a planted failing test says, as the canary's part of the evidence. It never raises:
    where nothing can be said, the note says why."""
    if not field.item.wave.settings.verify.canary:
        return _none("[verify] canary = false")
    if field.proof.tree is None:
        return _none("worked on in place")
    try:
        return _plant(field, field.proof.tree)
    except (TidegateError, OSError) as trouble:
        return Evidence(canary_word=CanaryVerdict.UNDECIDED, canary_note=str(trouble))


def _plant(field: Field, tree: str) -> Evidence:
    if not may_plan(field.item.spec.test_command):
        return _none(UNKNOWN_RUNNER)
    with field.item.checkouts.test_checkout(tree) as proving:
        canary = _plan(field, _Texts(proving.path, _files(field)))
        if isinstance(canary, NotApplicable):
            return _none(canary.reason)
        found = _run(field, proving, canary, _real(field, canary), f"canary-{field.number}")
    if found.canary_word == CanaryVerdict.UNDECIDED and found.canaries[-1].kind not in _TAKE_LONG:
        return _once_more(field, tree, canary, found)
    if found.canary_word != CanaryVerdict.UNSEEN:
        return found
    found = _with_base(field, canary, found)
    if found.canary_word != CanaryVerdict.UNSEEN or canary.alone is None:
        return found
    with field.item.checkouts.test_checkout(tree) as proving:
        alone = replace(canary, command=canary.alone)
        again = _run(field, proving, alone, None, f"canary-{field.number}-alone")
    return replace(again, canaries=(*found.canaries, *again.canaries))


def _real(field: Field, canary: Canary) -> Counts | Doubt | None:
    """What ran without the planted test and now runs beside it."""
    return None if canary.selects else field.proof.counts


def _once_more(field: Field, tree: str, canary: Canary, found: Evidence) -> Evidence:
    """Beside the planted test the run broke off, though it did not without: by chance or, where it
    does so again and the base does not, by what was changed."""
    with field.item.checkouts.test_checkout(tree) as proving:
        label = f"canary-{field.number}-again"
        again = _run(field, proving, canary, _real(field, canary), label)
    again = replace(again, canaries=(*found.canaries, *again.canaries))
    if again.canary_word not in (CanaryVerdict.UNDECIDED, CanaryVerdict.UNSEEN):
        return again
    return _with_base(field, canary, again)


def _with_base(field: Field, canary: Canary, found: Evidence) -> Evidence:
    """What it means that the planted test was not seen, by what the same command does on the base:
    tests that it runs there and not here are hidden by the work."""
    tree = field.item.checkouts.base_with(())
    if tree is None:
        return found
    there = replace(field, proof=replace(field.proof, tree=tree))
    with field.item.checkouts.test_checkout(tree) as proving:
        base = _run(there, proving, canary, None, f"canary-{field.number}-base")
    found = replace(found, canaries=(*found.canaries, *base.canaries))
    if base.canary_word != CanaryVerdict.RED:
        return found
    told = "the command runs a planted test on the base, and does not with this change"
    return replace(found, canary_word=CanaryVerdict.GREEN, canary_note=told)


def _plan(field: Field, texts: Mapping[str, str]) -> Canary | NotApplicable:
    work_dir = field.item.work_dir
    return plan_canary(
        field.item.spec.test_command,
        _files(field),
        [change.path for change in field.changes if not change.deleted],
        innocent_name(secrets.randbits(32)),
        texts=texts,
        workdir="" if work_dir == "." else work_dir,
    )


def _run(
    field: Field,
    proving: TestCheckout,
    canary: Canary,
    real: Counts | Doubt | None,
    label: str,
) -> Evidence:
    item = field.item
    _write(proving.path, canary)
    output = item.scratch / label
    test = Test(canary.command, item.work_dir, item.context.base)
    # It has one test more than its tree, so what differs from the tree says nothing.
    place = TestCheckout(proving.path)
    run = run_on(test, place, field.proof.tree, item.wave, output, purpose=CANARY)
    said = "\n".join(printed(run.output_file) or (run.output,))
    judged = canary_verdict(canary, run.exit_code, said, run.counts, real)
    item.say(f"planted test {judged.verdict} after {run.duration_s:.1f} s")
    return Evidence(canaries=(run,), canary_word=judged.verdict, canary_note=judged.reason)


def _write(top: Path, canary: Canary) -> None:
    """Lay the test down, with the time of what was there, so that it is not seen to be new.

    Raises OSError where something is there that it does not amend, or a link leads out of `top`.
    """
    path = top / canary.path
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.parent.resolve().is_relative_to(top.resolve()):
        raise OSError(f"a link on the way to {canary.path} leads out of the repository")
    amended = canary.amends and os.path.lexists(path)
    before = (path if amended else path.parent).lstat()
    if amended:
        path.unlink()  # never write through a link
    with path.open("x", encoding="utf-8", newline="\n") as stream:
        stream.write(canary.text)
    if stat.S_ISREG(before.st_mode):
        path.chmod(stat.S_IMODE(before.st_mode))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _files(field: Field) -> frozenset[str]:
    gone = {change.path for change in field.changes if change.deleted}
    made = {change.path for change in field.changes if not change.deleted}
    return (field.item.context.paths - gone) | made


def _text(path: Path) -> str | None:
    if not path.is_file() or path.is_symlink() or path.stat().st_size >= _MAX_TEXT_BYTES:
        return None
    return path.read_text("utf-8", "replace")


def _none(why: str) -> Evidence:
    return Evidence(canary_word=NOT_APPLICABLE, canary_note=why)
