"""The rules for the numbers of tests that a green run tells, compared with the base. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from driver.domain.findings import Finding, FindingKind
from driver.domain.results import TestRun
from driver.policy.judgement import NO_ANSWER
from driver.runners.counts import Allowance
from driver.runners.result import CONTRADICTORY, MISSING, REPORTED, Counts, Doubt

COUNTS = "counts"

_NONE_LESS = Allowance()
_NO_SUMMARY = "let the test command print its runner's summary"
_MUCH_LINES = 20
_QUIET = frozenset({"-q", "-qq", "-Q", "--quiet", "--silent"})
_DUPLICATED = re.compile(r"\d?>&\d")  # `2>&1` hides nothing
_REPEATED = re.compile(r"\b(?:for|while|until|xargs|find)\b|&&|;")
_ONE_LINE_BEHIND_MAKE = 2  # the command, and the line that it runs
_CAPTURED = re.compile(r"\|\||[`>]|\$\(")


def judge_counts(
    now: Counts | Doubt | None,
    base: Counts | Doubt | None,
    allowance: Allowance = _NONE_LESS,
) -> str | None:
    """The reason why the counts contradict exit code 0; None if they do not. `base` are the counts
    of the same command on the base commit; None if unknown."""
    known = base if isinstance(base, Counts) else None
    if now is None:
        gone = "the output no longer shows the number of tests that ran"
        return f"{gone} ({known.runner}: {known.ran} on the base)" if known else None
    if isinstance(now, Doubt):
        return None if now == base else f"the output of {now.runner} is in doubt: {now.reason}"
    if now.failed:
        return f"{now.runner} reports {now.failed} failed of {now.ran}, but the exit code is 0"
    if not now.ran:
        skipped = f", {now.skipped} skipped" if now.skipped else ""
        return f"no test ran ({now.runner}: 0 run{skipped})"
    return _against(now, known, allowance) if known else None


def of_counts(
    proof: TestRun,
    baseline: TestRun | None,
    allowance: Allowance,
    *,
    may_be_silent: bool = False,
    may_repeat: bool = False,
) -> tuple[Finding, ...]:
    """The findings on a green run's counts. `may_be_silent` and `may_repeat` are what the functions
    of these names tell about the command; its runner's own report is there all the same."""
    base = baseline if baseline is not None and baseline.kind not in NO_ANSWER else None
    now, before = proof.counts, base.counts if base is not None else None
    if isinstance(before, Counts) and before.source == REPORTED:
        may_be_silent = may_repeat = False
    if isinstance(now, Counts):
        found = _of_known(now, base, allowance)
    elif now is not None:
        # A red base may have ended before the second summary.
        unseen = may_repeat if now.reason == CONTRADICTORY else may_be_silent
        found = _of_doubt(now, base, unseen=unseen)
    else:
        found = _of_silence(proof, base, may_be_silent=may_be_silent)
    return (found,) if found else ()


def may_be_silent(lines: Iterable[str | Sequence[str]]) -> bool:
    """True if one of a command's lines may hide what a green run prints: it captures or redirects
    the output, or has a quiet option."""
    texts = [line if isinstance(line, str) else " ".join(line) for line in lines]
    return any(
        _CAPTURED.search(_DUPLICATED.sub("", text)) or not _QUIET.isdisjoint(text.split())
        for text in texts
    )


def may_repeat(lines: Iterable[str | Sequence[str]]) -> bool:
    """True if a command may run tests several times, so that a red run ends earlier than a green
    run."""
    texts = [line if isinstance(line, str) else " ".join(line) for line in lines]
    return len(texts) > _ONE_LINE_BEHIND_MAKE or any(map(_REPEATED.search, texts))


def _of_known(now: Counts, base: TestRun | None, allowance: Allowance) -> Finding | None:
    """The finding on counts that are known."""
    before = base.counts if base is not None else None
    reason = judge_counts(now, before, allowance)
    if reason is None:
        return None
    known = before if isinstance(before, Counts) else Counts("", 0, 0, 0)
    on_base = base.green if base is not None else None
    if now.failed:
        same = base is not None and base.green and known.failed >= now.failed
        kind = FindingKind.DOUBT if same else FindingKind.OFFENCE
        remedy = "let the test command fail if a test fails" if same else ""
        return Finding(COUNTS, kind, reason, remedy, on_base=same)
    if not now.ran:
        same = bool(on_base) and isinstance(before, Counts) and not known.ran
        remedy = "give the item a test that runs here" if same else ""
        return Finding(COUNTS, FindingKind.OFFENCE, reason, remedy, on_base=same)
    # The counts name the loss, and the sentence names the setting: a person has to decide.
    lost = now.runner == known.runner
    return Finding(
        COUNTS, FindingKind.DOUBT, reason, on_base=False, names_change=True, by_agent=not lost
    )


def _of_doubt(now: Doubt, base: TestRun | None, *, unseen: bool) -> Finding:
    """The finding on a known runner whose output cannot be trusted. `unseen` is true if a red base
    would not show the same."""
    before = base.counts if base is not None else None
    reason = f"the output of {now.runner} is in doubt: {now.reason}"
    on_base: bool | None = None
    if base is not None and before == now:
        # A red base may break off by the very fault that the item mends.
        on_base = base.green or unseen or now.reason != MISSING
    elif isinstance(before, Counts):
        on_base = False if base is not None and (base.green or not unseen) else None
    elif isinstance(before, Doubt):
        on_base = False if now.reason == MISSING else None
    return Finding(
        COUNTS, FindingKind.DOUBT, reason, _NO_SUMMARY, on_base, names_change=on_base is False
    )


def _of_silence(proof: TestRun, base: TestRun | None, *, may_be_silent: bool) -> Finding:
    """The finding on a run that tells no counts. A red base does not show what a green run of a
    quiet command prints."""
    before = base.counts if base is not None else None
    if base is not None and isinstance(before, Counts):
        reason = judge_counts(None, before) or ""
        on_base = False if base.green or not may_be_silent else None
        return Finding(
            COUNTS, FindingKind.DOUBT, reason, _NO_SUMMARY, on_base, names_change=on_base is False
        )
    lines = len(base.output.splitlines()) if base is not None else 0
    if base is not None and lines >= _MUCH_LINES and not proof.output.strip():
        reason = f"the test printed {lines} lines on the base, and nothing with this change"
        remedy = "look whether the tests still run"
        on_base = False if base.green else None
        return Finding(
            COUNTS,
            FindingKind.DOUBT,
            reason,
            remedy,
            on_base,
            names_change=base.green,
            by_agent=False,
        )
    reason = "the output does not tell how many tests ran"
    return Finding(
        COUNTS, FindingKind.DOUBT, reason, _NO_SUMMARY, True if base is not None else None
    )


def _against(now: Counts, known: Counts, allowance: Allowance) -> str | None:
    """The reason why a run is worse than the base; None if it is not."""
    if now.runner != known.runner:
        return f"the tests ran with {now.runner}, on the base with {known.runner}"
    fewer, more = known.ran - now.ran, now.skipped - known.skipped
    intended = "if this is intended, give the item"
    if fewer > allowance.fewer_tests_ok:
        return (
            f"fewer tests ran: {now.ran}, on the base {known.ran}; {intended} fewerTests: {fewer}"
        )
    if more > allowance.more_skipped_ok:
        why = f"more tests are skipped: {now.skipped}, on the base {known.skipped}"
        return f"{why}; {intended} moreSkipped: {more}"
    return None
