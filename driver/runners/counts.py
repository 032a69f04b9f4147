"""Counts of tests that ran, failed and were skipped, read from the output of runners. Pure.

Never guessed: an unknown runner or one that prints none is None, and a known one whose summary is
missing or contradicted is a `Doubt`. A runner that is called by name must close with a summary; one
behind make or npm is recognised by its output. A forged summary that replaces the real one cannot
be told from it here: the canary (`driver.runners.canary`) is for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from driver.runners.result import CONTRADICTORY, MISSING, Counts, Doubt, cleaned, total
from driver.runners.runner import Runner
from driver.runners.table import RUNNERS, runners_named
from driver.test_command.invocations import programs

__all__ = ["Allowance", "Counts", "Doubt", "count_tests", "judge_counts"]

# With one of these options a runner ends without any summary, or with one of another form.
_QUIET = (
    *("-qq", "-qqq", "--quiet", "-Q", "--reporters", "--json", "--reporter", "-R", "--no-run"),
    *("--test-reporter", "--format", "-f", "--teamcity", "--testdox", "--watch", "--version"),
)


@dataclass(frozen=True, slots=True)
class Allowance:
    """The tests that an item may have fewer, and skip more, than its base."""

    fewer_tests_ok: int = 0
    more_skipped_ok: int = 0


def count_tests(command: str | Sequence[str], stdout: str, stderr: str) -> Counts | Doubt | None:
    """The counts in the whole output of a run; a gap in the middle could hide tests."""
    out, err = cleaned(stdout), cleaned(stderr)
    given = command if isinstance(command, str) else tuple(command)
    named = runners_named(given)
    if not named:
        each = (_counts(runner, 1, out, err) for runner in RUNNERS.values())
        return _together([one for one in each if one is not None], summed=False)
    words = [word.partition("=")[0] for one in programs(given) for word in one]
    quiet = any(word in _QUIET for word in words) or words.count("-q") > 1
    found = []
    for name in dict.fromkeys(named):
        counts = _counts(RUNNERS[name], named.count(name), out, err)
        missing = counts is None and RUNNERS[name].closes and not quiet
        found.append(Doubt(name, MISSING) if missing else counts)
    return _together(found, summed=True)


def _counts(runner: Runner, calls: int, out: str, err: str) -> Counts | Doubt | None:
    """The counts of so many calls of one runner. Its own stream speaks; the other one only where
    that is silent (`2>&1`)."""
    own, other = (err, out) if runner.stream == "err" else (out, err)
    try:
        if runner.stream == "both":
            found = runner.read(f"{out}\n{err}")
        else:
            found = runner.read(own) or runner.read(other)
    except ValueError:  # digits by the thousand, which Python does not read as a number
        return Doubt(runner.name, CONTRADICTORY)
    if isinstance(found, Doubt):
        return found
    if len(set(found)) > 1 and len(found) > calls:
        return Doubt(runner.name, CONTRADICTORY)
    return total(runner.name, found[-calls:]) if found else None


def _together(found: list[Counts | Doubt | None], summed: bool) -> Counts | Doubt | None:
    """The counts of all runners of a command, `summed` if it names them."""
    if len(found) <= 1:
        return found[0] if found else None
    counts = [one for one in found if isinstance(one, Counts)]
    doubts = [one for one in found if isinstance(one, Doubt)]
    names = "+".join(one.runner for one in found if one is not None)
    if summed and len(counts) == len(found):
        return total(names, counts)
    if summed and not doubts:
        return None
    return Doubt(names, doubts[0].reason if summed else CONTRADICTORY)


def judge_counts(
    now: Counts | Doubt | None,
    base: Counts | Doubt | None,
    allowance: Allowance = Allowance(),
) -> str | None:
    """The reason why a run with exit code 0 is not green by its counts; None when it is green.

    `base` is the same command on the base commit; None where it is unknown or was not run.
    """
    known = base if isinstance(base, Counts) else None
    if now is None:
        gone = "the output no longer tells how many tests ran"
        return f"{gone} ({known.runner}: {known.ran} on the base)" if known else None
    if isinstance(now, Doubt):
        return None if now == base else f"the output of {now.runner} is in doubt: {now.reason}"
    if now.failed:
        return f"{now.runner} reports {now.failed} failed of {now.ran}, and yet the exit code is 0"
    if not now.ran:
        skipped = f", {now.skipped} skipped" if now.skipped else ""
        return f"no test ran ({now.runner}: 0 run{skipped})"
    return _against(now, known, allowance) if known else None


def _against(now: Counts, known: Counts, allowance: Allowance) -> str | None:
    """The reason why a run is worse than the base."""
    if now.runner != known.runner:
        return f"the tests ran with {now.runner}, on the base with {known.runner}"
    fewer, more = known.ran - now.ran, now.skipped - known.skipped
    meant = "if that is meant, give the item"
    if fewer > allowance.fewer_tests_ok:
        return f"fewer tests ran: {now.ran}, on the base {known.ran}; {meant} fewerTests: {fewer}"
    if more > allowance.more_skipped_ok:
        told = f"more tests are skipped: {now.skipped}, on the base {known.skipped}"
        return f"{told}; {meant} moreSkipped: {more}"
    return None
