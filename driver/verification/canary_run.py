"""Runs the canary, a failing test among the green tests, in a test checkout. Writes its file and
runs the test; `driver.runners.canary` plans and judges it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

from driver.domain.findings import Finding, FindingKind
from driver.domain.results import CANARY, Evidence, RunKind, TestRun
from driver.filesystem.safe_file_access import regular_bytes, replace_plain
from driver.filesystem.tree import Signature, signature_at
from driver.policy import known_red
from driver.policy.acceptance import is_check_beside, names_limit
from driver.run_state.test_turns import Alone
from driver.runners.canary import (
    UNKNOWN_RUNNER,
    CanaryVerdict,
    canary_verdict,
    innocent_name,
    is_read,
    may_plan,
    plan_canary,
)
from driver.runners.result import Counts, Doubt
from driver.runners.runner import Canary, NotApplicable
from driver.runners.table import is_bare_call
from driver.verification.lazy_texts import LazyTexts
from driver.verification.test_run import ItemWork, ProvenWork, Test, own_test, printed, run_test
from driver.workspace.repository_context import TestCheckout
from state_store.documents.errors import TidegateError
from state_store.values.lazy_dataclass import dataclass, replace

_CLEAR = (CanaryVerdict.RED, CanaryVerdict.ELSEWHERE)
_TAKE_LONG = (RunKind.TIMED_OUT, RunKind.CANCELLED)
_CODE = (*(".py", ".go", ".rs", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx"),)
_MAX_TEXT_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Planted:
    """A run with the canary in the checkout `top`, and what it printed. `is_fresh` is true if no
    test had run there before, and none changed the canary or the work."""

    canary: Canary
    run: TestRun
    text: str
    top: str
    is_fresh: bool


def may_be_check(work: ItemWork) -> bool:
    """True if the canary run may be the item's spot check as well: the command is one call of a
    runner, so its exit code tells of nothing but tests."""
    command, verify = work.item.spec.test_command, work.item.wave.settings.verify
    return verify.canary and work.tree is not None and is_bare_call(command)


def run_canary(
    work: ProvenWork, *, as_check: bool = False, beside: Callable[[], Planted | None] | None = None
) -> Evidence:
    """The canary's part of the evidence. Never raises: the note explains a missing result. With
    `as_check` it runs in a fresh checkout, and tells if it is a rerun of the proof. `beside` gives
    the run that took place beside the proof, if there was one."""
    item, tree = work.item, work.tree
    if not item.wave.settings.verify.canary:
        return _not_applicable("[verify] canary = false")
    if tree is None:
        return _not_applicable("work in place has no test checkout")
    try:
        if not may_plan(item.spec.test_command):
            return _not_applicable(UNKNOWN_RUNNER)
        planted = beside() if beside else None
        if planted is None:
            text = "\n".join(printed(work.proof.output_file) or ())
            with item.workspace.test_checkout(tree, fresh=as_check) as checkout:
                canary = plan(work, checkout.path, text)
                if isinstance(canary, NotApplicable):
                    return _not_applicable(canary.reason)
                planted = plant(work, checkout, tree, canary, is_fresh=as_check)
        found = _judged(work, planted, (), as_check=as_check)
        return _settled(work, tree, planted.canary, found)
    except (TidegateError, OSError) as trouble:
        return Evidence(canary_word=CanaryVerdict.UNDECIDED, canary_note=str(trouble))


def _not_applicable(why: str) -> Evidence:
    return Evidence(canary_word=CanaryVerdict.NOT_APPLICABLE, canary_note=why)


def plan(
    work: ItemWork, top: Path, output: str = "", *, beside: bool = True
) -> Canary | NotApplicable:
    """The canary for the item's command, `beside` a test of the tree or in a file of its own.
    `output` is what the proof printed."""
    gone = {change.path for change in work.changes if change.deleted}
    made = [change.path for change in work.changes if not change.deleted]
    files = (work.item.context.paths - gone) | {*made}
    needed = {one for one in files if is_read(one) and (beside or not one.endswith(_CODE))}
    return plan_canary(
        work.item.spec.test_command,
        files,
        made,
        innocent_name(secrets.randbits(32)),
        texts=LazyTexts(needed, lambda name: _text_of(top / name)),
        workdir="" if work.item.work_dir == "." else work.item.work_dir,
        output=output,
    )


def _text_of(path: Path) -> str | None:
    """The text of a file of the checkout; None if it is a link, or large."""
    if not path.is_file() or path.is_symlink() or path.stat().st_size >= _MAX_TEXT_BYTES:
        return None
    return regular_bytes(path, _MAX_TEXT_BYTES).decode("utf-8", "replace")


def _settled(work: ProvenWork, tree: str, canary: Canary, found: Evidence) -> Evidence:
    """The evidence of the first run, and of further runs unless the canary is red. Nothing is held
    against the work before the same run on the base is clear."""
    word = found.canary_word
    takes_long = word == CanaryVerdict.UNDECIDED and found.canaries[-1].kind in _TAKE_LONG
    if word in _CLEAR or takes_long:
        return found
    base = _on_base(work, canary)
    runs = (*found.canaries, *base.canaries)
    found = replace(found, canaries=runs)
    if base.canary_word == CanaryVerdict.RED:
        return _cleared_by_base(work, tree, canary, found)
    if word == CanaryVerdict.UNSEEN and canary.alone is not None:
        alone = replace(canary, command=canary.alone, alone=None, selects=True)
        with work.item.workspace.test_checkout(tree) as checkout:
            found = _run(work, checkout, tree, alone, "-alone", runs)
        return _settled(work, tree, alone, found)
    if word == CanaryVerdict.GREEN and _cannot_load(base):
        return _by_a_file_of_its_own(work, found)
    return _like_base(canary, found, base)


def _cannot_load(base: Evidence) -> bool:
    """True if the base may be red because the canary's file needs what the work adds."""
    unclear = (CanaryVerdict.UNSEEN, CanaryVerdict.UNDECIDED)
    return base.canary_word in unclear and bool(base.canaries[-1:] and base.canaries[-1].exit_code)


def _by_a_file_of_its_own(work: ProvenWork, found: Evidence) -> Evidence:
    """The evidence after a run on the base with a canary that needs no other file."""
    note = f"{found.canary_note}; the base cannot load the canary's file"
    unclear = replace(found, canary_word=CanaryVerdict.UNDECIDED, canary_note=note)
    with work.item.workspace.test_checkout(work.item.workspace.base_with(())) as checkout:
        text = "\n".join(printed(work.proof.output_file) or ())
        alone = plan(work, checkout.path, text, beside=False)
    if isinstance(alone, NotApplicable) or alone.amends:
        return unclear
    base = _on_base(work, alone, "-base-own")
    found = replace(found, canaries=(*found.canaries, *base.canaries))
    if base.canary_word == CanaryVerdict.UNSEEN:
        return _like_base(alone, found, base)
    if base.canary_word != CanaryVerdict.RED:
        return replace(unclear, canaries=found.canaries)
    note = f"{found.canary_note}; on the base a failing test makes the command red"
    return replace(found, canary_note=note)


def _like_base(canary: Canary, found: Evidence, base: Evidence) -> Evidence:
    """The evidence if the canary makes the command red neither with the work nor on the base."""
    if found.canary_word == CanaryVerdict.NOT_APPLICABLE:
        return _of_project(found, found.canary_note, "let the command accept one more test")
    # The runs with the canary end before the runner reports, here and on the base.
    runs = (found.canaries[0], *base.canaries)
    silent = not any(isinstance(run.counts, Counts) for run in runs)
    if found.canary_word == base.canary_word == CanaryVerdict.UNDECIDED and silent:
        return _of_project(found, found.canary_note, "let the command accept one more test")
    if found.canary_word == base.canary_word == CanaryVerdict.UNSEEN:
        note = f"the command does not run the tests of {canary.path}, nor does it on the base"
        return replace(found, canary_word=CanaryVerdict.NOT_APPLICABLE, canary_note=note)
    if found.canary_word != CanaryVerdict.GREEN:
        return found
    if base.canary_word == CanaryVerdict.UNDECIDED:
        note = f"{found.canary_note}; the base gives no answer: {base.canary_note}"
        return replace(found, canary_word=CanaryVerdict.UNDECIDED, canary_note=note)
    note = f"a failing test in {canary.path} does not make the command red, nor on the base"
    remedy = "let the command run the tests of this file and end with the runner's exit code"
    return _of_project(found, note, remedy)


def _of_project(found: Evidence, why: str, remedy: str) -> Evidence:
    """The evidence for a command that cannot have a canary because of the project."""
    doubt = Finding(CANARY, FindingKind.DOUBT, why, remedy, on_base=True)
    word = CanaryVerdict.NOT_APPLICABLE
    return replace(
        found, canary_word=word, canary_note=f"{why}: {remedy}", findings=(*found.findings, doubt)
    )


def _cleared_by_base(work: ProvenWork, tree: str, canary: Canary, found: Evidence) -> Evidence:
    """The evidence for a run that is not red because of the canary, while it is on the base. A run
    that breaks off may do so by chance. If it does so twice, the work is at fault."""
    word = found.canary_word
    if word in (CanaryVerdict.UNDECIDED, CanaryVerdict.NOT_APPLICABLE):
        with work.item.workspace.test_checkout(tree) as checkout:
            found = _run(work, checkout, tree, canary, "-again", found.canaries)
        word = found.canary_word
        if word in _CLEAR or word == CanaryVerdict.NOT_APPLICABLE:
            return found
    note = "the command runs the canary on the base, but not with this change"
    if word == CanaryVerdict.GREEN:
        note = f"{found.canary_note}; on the base the canary makes the command red"
    return replace(found, canary_word=CanaryVerdict.GREEN, canary_note=note)


def _on_base(work: ProvenWork, canary: Canary, label: str = "-base") -> Evidence:
    """Run the canary on the base."""
    tree = work.item.workspace.base_with(())
    if tree is None:
        return Evidence(canary_word=CanaryVerdict.UNDECIDED, canary_note="there is no base")
    with work.item.workspace.test_checkout(tree) as checkout:
        label += "-alone" if canary.alone is None and canary.selects else ""
        return _run(work, checkout, tree, replace(canary, selects=True), label)


def _run(
    work: ProvenWork,
    checkout: TestCheckout,
    tree: str,
    canary: Canary,
    label: str = "",
    before: tuple[TestRun, ...] = (),
) -> Evidence:
    """Run the test with the canary, after the runs `before`."""
    test = own_test(work.item)
    if before and before[-1].beside:  # others may have disturbed it
        test = test.with_room(Alone.COMMAND)
    planted = plant(work, checkout, tree, canary, label, test)
    return _judged(work, planted, before)


def plant(  # noqa: PLR0913 - the facts of a run, some by name
    work: ItemWork,
    checkout: TestCheckout,
    tree: str,
    canary: Canary,
    label: str = "",
    test: Test | None = None,
    *,
    is_fresh: bool = False,
) -> Planted:
    """Run the item's test, or the given form of it, with the canary. Its command is the
    canary's."""
    item = work.item
    ours = _place(work, checkout, canary)
    output = item.scratch / f"canary-{work.number}{label}"
    test = replace(test or own_test(item), command=canary.command)
    # The checkout has one test more than its tree, so a difference from the tree means nothing.
    untracked = TestCheckout(checkout.path, environment=checkout.environment)
    run = run_test(test, untracked, tree, item.wave, output, purpose=CANARY)
    text = "\n".join(printed(run.output_file) or (run.output,))
    is_fresh = is_fresh and not checkout.touched(ours)
    return Planted(canary, run, text, os.path.realpath(checkout.path), is_fresh)


def _judged(
    work: ProvenWork, planted: Planted, before: tuple[TestRun, ...], *, as_check: bool = False
) -> Evidence:
    """The evidence of a run with the canary, after the runs `before`. The counts of the proof give
    the number of other tests, unless only the canary is selected."""
    canary, run, text = planted.canary, planted.run, planted.text
    run = known_red.without_known(run, work.proof.known_red)
    real: Counts | Doubt | None = None if canary.selects else work.proof.counts
    judged = canary_verdict(canary, run.exit_code, text, run.counts, real, planted.top)
    is_check = (
        as_check
        and planted.is_fresh
        and judged.verdict is CanaryVerdict.RED
        and is_check_beside(work.proof, run, len(canary.names))
        and not names_limit(text)
    )
    also = ", and the spot check as well" if is_check else ""
    work.item.say(f"canary {judged.verdict} after {run.duration_s:.1f} s{also}", passing=True)
    return Evidence(
        canaries=(*before, run),
        canary_word=judged.verdict,
        canary_note=judged.reason,
        canary_is_check=is_check,
    )


def _place(work: ItemWork, checkout: TestCheckout, canary: Canary) -> dict[str, Signature]:
    """Write the canary's file, which git then shows like the files of the work around it. Returns
    the stat data of the canary and of the work's files."""
    _write(checkout.path, canary)
    changed = [change.path for change in work.changes if not change.deleted]
    work.item.context.show_as_tracked(
        checkout,
        canary.path,
        committed=canary.path not in changed,
        changed=[path for path in changed if path != canary.path],
    )
    seen = {path: signature_at(str(checkout.path / path)) for path in (canary.path, *changed)}
    return {path: signature for path, signature in seen.items() if signature}


def _write(top: Path, canary: Canary) -> None:
    """Write the canary's file with the mode and times of the existing file, so that it looks
    old. Raises OSError if it would replace a file that it does not amend, or a link leads out
    of `top`."""
    path = top / canary.path
    real, within = top.resolve(), path.parent.resolve()
    if not within.is_relative_to(real):
        raise OSError(f"a link on the way to {canary.path} leads out of the repository")
    there = os.path.lexists(path)
    if there and not canary.amends:
        raise FileExistsError(f"{canary.path} exists already")
    beside = path if there else within
    before = beside.lstat() if os.path.lexists(beside) else None
    is_dos = there and b"\r\n" in regular_bytes(path)
    text = canary.text.replace("\n", "\r\n") if is_dos else canary.text
    name = (within / path.name).relative_to(real).as_posix()
    replace_plain(real, name, text.encode(), like=before)
