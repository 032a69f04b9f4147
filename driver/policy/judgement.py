"""Verdicts by observation: pure decisions, in the order in which they are asked.

Each returns a Judgement that ends the attempt, or None to go on. The inputs are the end of the
agent's process, the changes on disk and the end of the test, but never the agent's words.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from driver.backend_api.driver import (
    FAILURE_CANCELLED,
    FAILURE_COULD_NOT_RUN,
    FAILURE_REFUSED,
    CommandResult,
    WorkerResult,
)
from driver.domain.ownership import OwnedPath, covers
from driver.domain.results import MODE_NESTED, Change, RunKind, TestRun, Verdict

_MAX_NAMED = 20
LEFT_RUNNING = "left processes running: "


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and the sentence that explains it."""

    verdict: Verdict
    reason: str = ""


_SENT_BY_OTHERS = frozenset({"SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT"})
# Programs choose exit codes above 128 for themselves; these are hardly ever chosen.
_REPORTED_BY_SHELLS = frozenset(
    {"SIGKILL", "SIGTERM", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGXCPU", "SIGXFSZ"}
)


_FAILURE_VERDICTS = {
    FAILURE_COULD_NOT_RUN: Verdict.UNDECIDED,
    FAILURE_CANCELLED: Verdict.HALTED,
    FAILURE_REFUSED: Verdict.REFUSED,
}


def of_dispatch(result: WorkerResult) -> Judgement | None:
    """A dispatch that did not end well is judged without looking at the files."""
    if result.ok:
        return None
    verdict = _FAILURE_VERDICTS.get(result.failure, Verdict.FAILED)
    if (result.error or "").startswith("out-of-scope:"):
        verdict = Verdict.REFUSED
    return Judgement(verdict, result.error or "the agent failed and gave no reason")


def of_changes(
    changes: Sequence[Change],
    owned: tuple[OwnedPath, ...],
    *,
    head_moved: str = "",
    git_left: Sequence[str] = (),
    links_outside: Sequence[str] = (),
    protected: str = "",
) -> Judgement | None:
    """Refuses foreign changes, and those that cannot be shipped as files; NO_CHANGE for none.

    `protected` names protected and unfiltered files among the changes, "" for none.
    """
    touching = _named(", touching ", [change.path for change in changes])
    outside = [c.path for c in changes if not covers(owned, c.path)]
    gone = [c.path for c in changes if c.base_mode == MODE_NESTED != c.mode]
    problems = [
        *(["".join((head_moved, *touching))] if head_moved else []),
        *_named("left in the git dir of its workspace: ", git_left),
        *_named("changed outside its files: ", outside),
        *_named("a nested repository: ", [c.path for c in changes if c.mode == MODE_NESTED]),
        *_named("a submodule taken away: ", gone),
        *_named("links that leave the repository: ", links_outside),
        *([protected] if protected else []),
    ]
    if problems:
        return Judgement(Verdict.REFUSED, "; ".join(problems))
    if not changes:
        return Judgement(Verdict.NO_CHANGE, "nothing differs from the base commit")
    return None


def of_ignored(ignored: Sequence[str]) -> Judgement | None:
    """Refuses an item with own files that git leaves out of commits, before or after a dispatch."""
    remedy = "; take them out of ownsFiles, have the rules let them in, or commit them once by hand"
    named = _named("own files that git ignores: ", ignored)
    return Judgement(Verdict.REFUSED, named[0] + remedy) if named else None


def of_secrets(found: Sequence[str]) -> Judgement | None:
    """Refuses work with a secret, which `found` names without its value."""
    named = _named("secret found, which is never shipped: ", found)
    return Judgement(Verdict.REFUSED, named[0]) if named else None


def unfiltered(paths: Sequence[str]) -> str:
    """The sentence that names files which need a filter program of git; "" for none."""
    return "".join(_named("needs a filter of git's, which is not run (LFS, encryption): ", paths))


def of_checkout_changes(judgement: Judgement, attribution: str) -> Judgement:
    """The verdict of work whose agent or test reached out of its workspace, as `attribution` says.

    A verdict that ships nothing in any case stays as it is.
    """
    if judgement.verdict in (Verdict.HALTED, Verdict.UNDECIDED, Verdict.REFUSED):
        reasons = "; ".join(filter(None, (attribution, judgement.reason)))
        return Judgement(judgement.verdict, reasons)
    return Judgement(Verdict.REFUSED, attribution)


def _named(what: str, paths: Sequence[str]) -> list[str]:
    if not paths:
        return []
    rest = len(paths) - _MAX_NAMED
    return [what + ", ".join(paths[:_MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")]


def run_kind(
    result: CommandResult, tampered: Sequence[str], *, survivors_allowed: bool = False
) -> tuple[RunKind, str]:
    """The kind of a test run, and the sentence for it; green means exit code 0 and no more."""
    if result.cancelled:
        return RunKind.CANCELLED, "the test was ended because the wave was stopped"
    if result.could_not_run:
        return RunKind.COULD_NOT_RUN, f"the test could not be run: {result.could_not_run}"
    if result.timed_out:
        return RunKind.TIMED_OUT, f"the test timed out after {result.duration_s:.0f} s"
    if result.exit_code != 0:
        if name := signal_of(result.exit_code):
            return RunKind.KILLED, f"the test was killed by {name}"
        return RunKind.RED, f"test failed with exit {result.exit_code}"
    left = () if survivors_allowed else result.survivors
    problems = [
        *_named("the test run changed tracked files: ", tampered),
        *_named(LEFT_RUNNING, left),
    ]
    return RunKind.RED if problems else RunKind.GREEN, "; ".join(problems)


_RUN_VERDICTS = {
    RunKind.GREEN: Verdict.VERIFIED,
    RunKind.RED: Verdict.FAILED,
    RunKind.TIMED_OUT: Verdict.FAILED,
    RunKind.KILLED: Verdict.FAILED,
    RunKind.COULD_NOT_RUN: Verdict.UNDECIDED,
    RunKind.CANCELLED: Verdict.HALTED,
}


def of_test(test: TestRun) -> Judgement:
    """The verdict of an item whose changes are all its own.

    A signal that only other processes send may come from the system, short of memory, or from a
    person. The work may be right, so that costs no repair round.
    """
    if test.kind is RunKind.KILLED and signal_of(test.exit_code) in _SENT_BY_OTHERS:
        return Judgement(Verdict.UNDECIDED, test.reason)
    return Judgement(_RUN_VERDICTS[test.kind], test.reason)


def signal_of(exit_code: int | None) -> str:
    """The signal that ended a program, also one that a shell reports as 128 and more; "" for
    none."""
    if exit_code is None:
        return ""
    if exit_code < 0:
        number = -exit_code
        known = {one.value: one.name for one in signal.Signals}
        return known.get(number, f"signal {number}")
    reported = {one.value: one.name for one in signal.Signals if one.name in _REPORTED_BY_SHELLS}
    return reported.get(exit_code - 128, "")


def review_missing(*, in_place: bool, closed: str) -> Judgement | None:
    """The judgement of an item that needs a review and cannot get one, before anything is spent on
    it. `closed` is the reason why the reviewer takes no work, "" where it does."""
    off = 'set [review] mode = "off" to do without one'
    if in_place:
        why = "review required, and a folder in no repository has no base to compare with"
        return Judgement(Verdict.UNDECIDED, f"{why}: put it under git, or {off}")
    if closed:
        return Judgement(Verdict.UNDECIDED, f"review required, and its reviewer is out: {closed}")
    return None
