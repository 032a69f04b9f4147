"""From what was observed to a verdict: pure decisions, in the order in which they are asked.

Each returns a Judgement that ends the attempt, or None to go on. The agent's words are not among
the inputs: only how its process ended, what differs on disk, and how the test ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from driver.agent_driver import (
    FAILURE_CANCELLED,
    FAILURE_COULD_NOT_RUN,
    FAILURE_REFUSED,
    CommandResult,
    WorkerResult,
)
from driver.outcome import MODE_NESTED, Change, RunKind, TestRun, Verdict
from driver.ownership import OwnedPath, covers

_MAX_NAMED = 20
LEFT_RUNNING = "left processes running: "


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and the sentence that explains it."""

    verdict: Verdict
    reason: str = ""


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
    return Judgement(verdict, f"dispatch_worker failed: {result.error or 'no reason given'}")


def of_changes(
    changes: Sequence[Change],
    owned: tuple[OwnedPath, ...],
    *,
    head_moved: str = "",
    git_left: Sequence[str] = (),
    links_outside: Sequence[str] = (),
    protected: str = "",
) -> Judgement | None:
    """Nothing changed, something foreign changed, or something that cannot be shipped as files.

    `protected` is the sentence that names protected files among the changes, "" for none, as that
    of `unfiltered`.
    """
    problems = [
        *([head_moved + _touching(changes)] if head_moved else []),
        *_named("left in the git dir of its workspace: ", git_left),
        *_named("changed outside its files: ", [c.path for c in changes if not _owns(owned, c)]),
        *_named("a nested repository: ", [c.path for c in changes if c.mode == MODE_NESTED]),
        *_named("a submodule taken away: ", [c.path for c in changes if _was_nested(c)]),
        *_named("links that leave the repository: ", links_outside),
        *([protected] if protected else []),
    ]
    if problems:
        return Judgement(Verdict.REFUSED, "; ".join(problems))
    if not changes:
        return Judgement(Verdict.NO_CHANGE, "nothing differs from the base commit")
    return None


def unfiltered(paths: Sequence[str]) -> str:
    """The sentence that names files which a filter program of git's has a part in."""
    told = _named("needs a filter of git's, which is not run (LFS, encryption): ", paths)
    return "".join(told)


def of_strays(judgement: Judgement, accusation: str) -> Judgement:
    """The verdict of work whose agent or test reached out of its place, as `accusation` says.

    What was not judged at all stays so; it does not ship either.
    """
    told = "; ".join(filter(None, (accusation, judgement.reason)))
    if judgement.verdict in (Verdict.HALTED, Verdict.UNDECIDED, Verdict.REFUSED):
        return Judgement(judgement.verdict, told)
    return Judgement(Verdict.REFUSED, accusation)


def _owns(owned: tuple[OwnedPath, ...], change: Change) -> bool:
    return covers(owned, change.path)


def _was_nested(change: Change) -> bool:
    return change.base_mode == MODE_NESTED and change.mode != MODE_NESTED


def _touching(changes: Sequence[Change]) -> str:
    return "".join(_named(", touching ", [change.path for change in changes]))


def _named(what: str, paths: Sequence[str]) -> list[str]:
    if not paths:
        return []
    rest = len(paths) - _MAX_NAMED
    return [what + ", ".join(paths[:_MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")]


def run_kind(
    result: CommandResult, tampered: Sequence[str], *, survivors_allowed: bool = False
) -> tuple[RunKind, str]:
    """How a test run counts, and the sentence that says so; green means exit code 0 and no more."""
    if result.cancelled:
        return RunKind.CANCELLED, "the test was ended because the wave was stopped"
    if result.could_not_run:
        return RunKind.COULD_NOT_RUN, f"the test could not be run: {result.could_not_run}"
    if result.timed_out:
        return RunKind.TIMED_OUT, f"the test timed out after {result.duration_s:.0f} s"
    if result.exit_code != 0:
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
    RunKind.COULD_NOT_RUN: Verdict.UNDECIDED,
    RunKind.CANCELLED: Verdict.HALTED,
}


def of_test(test: TestRun) -> Judgement:
    """The verdict of an item whose changes are all its own."""
    return Judgement(_RUN_VERDICTS[test.kind], test.reason)


def review_missing(*, required: bool, mode: str) -> Judgement | None:
    """Asked before anything is spent: work that needs a review nobody can give is not started."""
    if mode == "off" or not (required or mode == "always"):
        return None
    return Judgement(
        Verdict.UNDECIDED,
        'review required, none available: set [review] mode = "off" to ship without one,'
        " or [backend] tier = 1 for an agent you trust that far",
    )


def review_word(*, required: bool, mode: str) -> str:
    """What the report says about review: `off`, `not_required` or `required_unavailable`."""
    if mode == "off":
        return "off"
    return "required_unavailable" if required or mode == "always" else "not_required"
