"""Verdicts by observation: pure decisions, in the order in which they are made. Each returns a
Judgement that ends the attempt, or None to go on. They see the end of the agent's process, the
changes on disk and the end of the test, but never the agent's words."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence

from driver.backend_api.driver import (
    FAILURE_CANCELLED,
    FAILURE_COULD_NOT_RUN,
    FAILURE_REFUSED,
    CommandResult,
    WorkerResult,
)
from driver.domain.ownership import OwnedPath, covers
from driver.domain.results import MODE_NESTED, Change, RunKind, TestRun, Verdict
from state_store.values.lazy_dataclass import dataclass

_MAX_NAMED = 20
LEFT_RUNNING = "left processes running: "
NO_ANSWER = (RunKind.COULD_NOT_RUN, RunKind.CANCELLED)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and the sentence that explains it. With `waits` a person has to decide, and no
    agent is asked again for the item until then."""

    verdict: Verdict
    reason: str = ""
    waits: bool = False


_SENT_BY_OTHERS = frozenset({"SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT"})
# Programs also choose exit codes above 128 themselves, but hardly ever these.
_REPORTED_BY_SHELLS = frozenset(
    {"SIGKILL", "SIGTERM", "SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGXCPU", "SIGXFSZ"}
)


_FAILURE_VERDICTS = {
    FAILURE_COULD_NOT_RUN: Verdict.UNDECIDED,
    FAILURE_CANCELLED: Verdict.HALTED,
    FAILURE_REFUSED: Verdict.REFUSED,
}


def of_dispatch(result: WorkerResult) -> Judgement | None:
    """The verdict of a failed dispatch, without a look at its files; None if the dispatch
    succeeded."""
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
    is_replaced: bool = False,
    git_traces: Sequence[str] = (),
    links_outside: Sequence[str] = (),
    protected: str = "",
) -> Judgement | None:
    """Refuses changes to foreign files and changes that cannot be shipped; NO_CHANGE without a
    change. `git_traces` tell what the agent did with git, which counts neither for nor against
    it. `protected` names protected and unfiltered files among the changes, "" for none."""
    outside = [c.path for c in changes if not covers(owned, c.path)]
    gone = [c.path for c in changes if c.base_mode == MODE_NESTED != c.mode]
    problems = [
        *(["the agent put a link in place of its workspace"] if is_replaced else []),
        *named("changed outside its files: ", outside),
        *named(
            "a nested repository: ",
            [c.path for c in changes if c.mode == MODE_NESTED and not c.moves_submodule],
        ),
        *named("a removed submodule: ", gone),
        *named("links that leave the repository: ", links_outside),
        *([protected] if protected else []),
    ]
    if problems:
        return Judgement(Verdict.REFUSED, "; ".join(problems))
    if not changes:
        why = "nothing differs from the base commit"
        held = named(
            " on disk, and only files on disk count; what its git holds is not looked at, so check"
            " the work out there again: ",
            git_traces,
        )
        return Judgement(Verdict.NO_CHANGE, "".join((why, *held)))
    return None


def of_ignored(ignored: Sequence[str]) -> Judgement | None:
    """Refuses an item if git ignores files that it owns, before or after a dispatch."""
    remedy = "; remove them from ownsFiles, change the ignore rules, or commit them once by hand"
    found = named("own files that git ignores: ", ignored)
    return Judgement(Verdict.REFUSED, found[0] + remedy) if found else None


def of_secrets(found: Sequence[str]) -> Judgement | None:
    """Refuses work with a secret, which `found` names without its value."""
    reason = named("secret found; secrets are never shipped: ", found)
    return Judgement(Verdict.REFUSED, reason[0]) if reason else None


def unfiltered(paths: Sequence[str]) -> str:
    """The sentence about files that need a filter program of git; "" for none."""
    return "".join(named("needs a git filter, and Tidegate runs none (LFS, encryption): ", paths))


def of_checkout_changes(
    judgement: Judgement, attribution: str, evidence: Mapping[str, str]
) -> Judgement:
    """The verdict of work during which files outside its workspace changed. `attribution` is the
    sentence about the change. With `evidence`, by changed part, the item is REFUSED. Else nothing
    shows that the item did it, but the change may run a program, so it is UNDECIDED. A verdict that
    already ships nothing and charges nobody stays."""
    why = "; ".join(filter(None, (attribution, *map(": ".join, evidence.items()))))
    if judgement.verdict in (Verdict.HALTED, Verdict.UNDECIDED, Verdict.REFUSED):
        return Judgement(judgement.verdict, "; ".join(filter(None, (why, judgement.reason))))
    return Judgement(Verdict.REFUSED if evidence else Verdict.UNDECIDED, why)


def named(what: str, paths: Sequence[str]) -> list[str]:
    """The words with the names behind them; none without names."""
    if not paths:
        return []
    rest = len(paths) - _MAX_NAMED
    return [what + ", ".join(paths[:_MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")]


def run_kind(
    result: CommandResult, tampered: Sequence[str], *, survivors_allowed: bool = False
) -> tuple[RunKind, str]:
    """The kind of a test run, and its sentence. Green requires more than exit code 0."""
    if result.cancelled:
        return RunKind.CANCELLED, "the test was ended because the wave was stopped"
    if result.could_not_run:
        return RunKind.COULD_NOT_RUN, f"the test could not be run: {result.could_not_run}"
    if result.timed_out or result.over_limit:
        late = f"the test timed out after {result.duration_s:.0f} s"
        kind = RunKind.KILLED if result.over_limit else RunKind.TIMED_OUT
        return kind, result.over_limit or late
    if result.exit_code != 0:
        if name := signal_of(result.exit_code):
            return RunKind.KILLED, f"the test was killed by {name}"
        words = (f"test failed with exit {result.exit_code}", result.limit_hint)
        return RunKind.RED, "; ".join(filter(None, words))
    left = () if survivors_allowed else result.survivors
    problems = [
        *named("the test run changed tracked files: ", tampered),
        *named(LEFT_RUNNING, left),
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
    """The verdict of an item that changed its own files only. A signal that only other processes
    send may come from the system, short of memory, or from a person. The work may be right, so the
    item is UNDECIDED and has no repair round."""
    if test.kind is RunKind.KILLED and signal_of(test.exit_code) in _SENT_BY_OTHERS:
        return Judgement(Verdict.UNDECIDED, test.reason)
    return Judgement(_RUN_VERDICTS[test.kind], test.reason)


def signal_of(exit_code: int | None) -> str:
    """The signal that ended a program, also if a shell reports it as 128 and more; "" for none."""
    if exit_code is None:
        return ""
    if exit_code < 0:
        number = -exit_code
        known = {one.value: one.name for one in signal.Signals}
        return known.get(number, f"signal {number}")
    reported = {one.value: one.name for one in signal.Signals if one.name in _REPORTED_BY_SHELLS}
    return reported.get(exit_code - 128, "")


def review_missing(*, in_place: bool, closed: str) -> Judgement | None:
    """The judgement of an item that needs a review but cannot get it, made before it costs
    anything. `closed` is the reason why the reviewer takes no work, "" if it does."""
    off = 'set [review] mode = "off" to do without one'
    if in_place:
        why = "review required, but a folder in no repository has no base to compare with"
        return Judgement(Verdict.UNDECIDED, f"{why}: put it under git, or {off}")
    if closed:
        return Judgement(Verdict.UNDECIDED, f"review required, but its reviewer is out: {closed}")
    return None
