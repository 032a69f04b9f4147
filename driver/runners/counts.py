"""Counts of tests that ran, failed and were skipped, read from the output of runners. Pure.

Nothing is guessed. The result is None for an unknown runner or a runner without a summary. It is a
`Doubt` if the summary of a known runner is missing or contradicted. A runner called by name must
end with a summary; a runner behind make or npm is recognised by its output or its report. Counts
cannot expose a forged summary in place of the real one; the canary (`driver.runners.canary`) can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from driver.runners.result import (
    CONTRADICTORY,
    MISSING,
    REPORTED,
    Counts,
    Doubt,
    cleaned,
    total,
)
from driver.runners.runner import Runner
from driver.runners.table import RUNNERS, runners_named
from driver.test_command.invocations import programs
from state_store.values.lazy_dataclass import dataclass, replace

__all__ = ["Allowance", "Counts", "Doubt", "count_tests"]

# Options that make a runner print no summary, or a summary in another form.
_QUIET = (
    *("-qq", "-qqq", "--quiet", "-Q", "--reporters", "--json", "--reporter", "-R", "--no-run"),
    *("--test-reporter", "--format", "-f", "--teamcity", "--testdox", "--watch", "--version"),
)


@dataclass(frozen=True, slots=True)
class Allowance:
    """The accepted loss of tests against the base: fewer tests, more skipped tests."""

    fewer_tests_ok: int = 0
    more_skipped_ok: int = 0


Reports = Mapping[str, tuple[Counts, ...]]


def count_tests(
    command: str | Sequence[str], stdout: str, stderr: str, reports: Reports = MappingProxyType({})
) -> Counts | Doubt | None:
    """The counts in a run's whole output. A gap in the output could hide tests. `reports` has the
    counts of the reports that each runner wrote; the output must not contradict them."""
    out, err = cleaned(stdout), cleaned(stderr)
    given = command if isinstance(command, str) else tuple(command)
    named = runners_named(given)
    if not named:
        each = (_counts(runner, 1, out, err, reports) for runner in RUNNERS.values())
        return _together([one for one in each if one is not None], summed=False)
    words = [word.partition("=")[0] for one in programs(given) for word in one]
    quiet = any(word in _QUIET for word in words) or words.count("-q") > 1
    found = []
    for name in dict.fromkeys(named):
        counts = _counts(RUNNERS[name], named.count(name), out, err, reports)
        if counts is None and quiet:  # a reporter option may choose this protocol
            counts = _counts(RUNNERS["tap"], 1, out, err, reports)
        missing = counts is None and RUNNERS[name].closes and not quiet
        found.append(Doubt(name, MISSING) if missing else counts)
    return _together(found, summed=True)


def _counts(
    runner: Runner, calls: int, out: str, err: str, reports: Reports
) -> Counts | Doubt | None:
    """The counts of all calls of one runner. They come from the runner's usual stream, or from the
    other stream if that has none (`2>&1`), and from its reports."""
    own, other = (err, out) if runner.stream == "err" else (out, err)
    try:
        if runner.stream == "both":
            found = runner.read(f"{out}\n{err}")
        else:
            found = runner.read(own) or runner.read(other)
    except ValueError:  # thousands of digits; Python refuses such a number
        return Doubt(runner.name, CONTRADICTORY)
    if isinstance(found, Doubt):
        return found
    printed: Counts | Doubt | None = total(runner.name, found[-calls:]) if found else None
    if len(set(found)) > 1 and len(found) > calls:
        printed = Doubt(runner.name, CONTRADICTORY)
    reported = reports.get(runner.name, ())
    if not reported or (printed and runner.report is None):
        return printed
    if found and runner.report and not runner.report.variable and len(reported) > len(found):
        return printed  # each asked call prints its summary too: one more report is forged
    return _confirmed(printed, found, total(runner.name, reported), reported)


def _confirmed(
    printed: Counts | Doubt | None,
    found: Sequence[Counts],
    reported: Counts,
    reports: Sequence[Counts],
) -> Counts | Doubt:
    """The counts of the reports, in the printed form if both agree. A command may print only some
    of its summaries, or one twice, but none that no report has."""
    for one in (printed, total(reported.runner, found)):
        if isinstance(one, Counts) and _agree(one, reported):
            return replace(one, source=REPORTED)
    if all(any(_agree(one, other) for other in reports) for one in found):
        return reported
    return Doubt(reported.runner, CONTRADICTORY)


def _agree(one: Counts, other: Counts) -> bool:
    """True if both have as many tests, and failures or none. Some tests are counted as skipped only
    in print, such as those that pass though they need not."""
    same = one.ran + one.skipped == other.ran + other.skipped
    return same and bool(one.failed) == bool(other.failed)


def _together(found: list[Counts | Doubt | None], summed: bool) -> Counts | Doubt | None:
    """The counts of all runners of a command; the sum if the command names them (`summed`)."""
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
