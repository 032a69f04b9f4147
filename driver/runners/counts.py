"""How many tests ran, failed and were skipped, read from the runner's own last lines. Pure.

Never guessed: an unknown runner or one that does not tell is None, and a known one whose summary is
missing or contradicted is a `Doubt`. A runner that is called by name must close with a summary; one
behind make or npm is recognised by what it prints. A forged summary that replaces the real one
cannot be told from it here: that is what the canary (`driver.canary`) is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from driver.runners import compiled_runners, hosted_runners, node_runners, python_runners
from driver.runners.result import (
    CONTRADICTORY,
    MISSING,
    Counts,
    Doubt,
    Found,
    Runner,
    cleaned,
    total,
)
from driver.test_command.invocations import programs, runners_named

__all__ = ["Allowance", "Counts", "Doubt", "count_tests", "judge_counts"]

_RUNNERS = {
    runner.name: runner
    for family in (python_runners, node_runners, compiled_runners, hosted_runners)
    for runner in family.RUNNERS
}
# Told so, these end without any summary, or with one of another form.
_QUIET = (
    *("-qq", "-qqq", "--quiet", "-Q", "--reporters", "--json", "--reporter", "-R", "--no-run"),
    *("--test-reporter", "--format", "-f", "--teamcity", "--testdox", "--watch", "--version"),
)


@dataclass(frozen=True, slots=True)
class Allowance:
    """What an item is allowed against its base: so many tests fewer, so many more skipped."""

    fewer_tests_ok: int = 0
    more_skipped_ok: int = 0


def count_tests(command: str | Sequence[str], stdout: str, stderr: str) -> Counts | Doubt | None:
    """What a run's output says, given whole: a gap in the middle may hold tests."""
    out, err = cleaned(stdout), cleaned(stderr)
    named = runners_named(command)
    if named:
        called = {name: named.count(name) for name in named}
        found = [
            _or_missing(command, name, _called(_RUNNERS[name], calls, out, err))
            for name, calls in called.items()
        ]
    else:
        each = (_called(runner, 1, out, err) for runner in _RUNNERS.values())
        found = [one for one in each if one is not None]
    return _together(found, summed=bool(named))


def _called(runner: Runner, calls: int, out: str, err: str) -> Counts | Doubt | None:
    found = _read(runner, out, err)
    if isinstance(found, Doubt):
        return found
    if len(set(found)) > 1 and len(found) > calls:
        return Doubt(runner.name, CONTRADICTORY)
    return total(runner.name, found[-calls:]) if found else None


def _read(runner: Runner, out: str, err: str) -> Found:
    """The runner's own stream speaks; the other one only where that is silent (`2>&1`)."""
    own, other = (err, out) if runner.stream == "err" else (out, err)
    try:
        if runner.stream == "both":
            return runner.read(f"{out}\n{err}")
        return runner.read(own) or runner.read(other)
    except ValueError:  # digits by the thousand, which Python takes for no number
        return Doubt(runner.name, CONTRADICTORY)


def _or_missing(
    command: str | Sequence[str], name: str, found: Counts | Doubt | None
) -> Counts | Doubt | None:
    closes = found is None and _RUNNERS[name].closes and not _is_quiet(command)
    return Doubt(name, MISSING) if closes else found


def _is_quiet(command: str | Sequence[str]) -> bool:
    words = [word.partition("=")[0] for one in programs(command) for word in one]
    return any(word in _QUIET for word in words) or words.count("-q") > 1


def _together(found: list[Counts | Doubt | None], summed: bool) -> Counts | Doubt | None:
    """One answer for all runners of a command."""
    if len(found) == 1 or not found:
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
    """Why a run with exit code 0 is not green by its counts, as a sentence; None when it is.

    `base` is the same command on the base commit; None where it is unknown or was not run.
    """
    if now is None:
        return _gone(base)
    if isinstance(now, Doubt):
        return None if now == base else f"the output of {now.runner} is in doubt: {now.reason}"
    if problem := _alone(now):
        return problem
    if not isinstance(base, Counts):
        return None
    return _against(now, base, allowance)


def _gone(base: Counts | Doubt | None) -> str | None:
    if not isinstance(base, Counts):
        return None
    return f"the output no longer tells how many tests ran ({base.runner}: {base.ran} on the base)"


def _alone(now: Counts) -> str | None:
    if now.failed:
        return f"{now.runner} reports {now.failed} failed of {now.ran}, and yet the exit code is 0"
    if not now.ran:
        skipped = f", {now.skipped} skipped" if now.skipped else ""
        return f"no test ran ({now.runner}: 0 run{skipped})"
    return None


def _against(now: Counts, base: Counts, allowance: Allowance) -> str | None:
    if now.runner != base.runner:
        return f"the tests ran with {now.runner}, on the base with {base.runner}"
    if now.ran < base.ran - allowance.fewer_tests_ok:
        return _compared("fewer tests ran", now.ran, base.ran, "fewerTests", base.ran - now.ran)
    if now.skipped > base.skipped + allowance.more_skipped_ok:
        more = now.skipped - base.skipped
        return _compared("more tests are skipped", now.skipped, base.skipped, "moreSkipped", more)
    return None


def _compared(what: str, now: int, base: int, field: str, by: int) -> str:
    return f"{what}: {now}, on the base {base}; if that is meant, give the item {field}: {by}"
