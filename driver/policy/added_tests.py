"""The tests that the work adds, and the rules for the run without them. Pure.

An added test can change what other tests check, or fill the count for a test that is gone. So the
other tests must pass without it. But a run can also be red because a file is missing that another
test looks for. The rules here tell the two apart.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import replace

from driver.domain.findings import Finding, FindingKind
from driver.domain.ownership import OwnedPath
from driver.domain.results import Change, RunKind, TestRun, Verdict
from driver.policy.count_rules import of_counts
from driver.policy.judgement import of_test
from driver.policy.test_files import NamedTests, has_test_name, is_test, stems_in_output
from driver.runners.counts import Allowance, Counts, Doubt

CHECK = "added_tests"
_NO_FEWER = Allowance()
_NONE_NAMED = NamedTests()


def added_tests(
    changes: Sequence[Change], owned: Sequence[OwnedPath], named: NamedTests = _NONE_NAMED
) -> tuple[Change, ...]:
    """The tests that the work adds. `named` are the tests in the command without a usual name.

    A file that the item lists by name counts only if a runner with a readable call finds it by
    itself: other tests may need any other listed file. Returns no tests if an existing test
    changed: it may need the new tests, and it decides anyway.
    """
    listed = {entry.path for entry in owned if not entry.is_dir}
    tests = [change for change in changes if is_test(change.path) or named.holds(change.path)]
    if any(change.base_mode is not None for change in tests):
        return ()
    return tuple(
        change
        for change in tests
        if change.path not in listed or (named.is_read and has_test_name(change.path))
    )


def answers_without(
    added: Sequence[Change],
    command: str | Sequence[str],
    baseline: TestRun | None,
    named: NamedTests = _NONE_NAMED,
) -> bool:
    """True if the command still has tests to run without the added tests. The command must not name
    an added test, as a path or as a Python module, and must not have run zero tests on the base."""
    words = re.split(r"[\s'\"=]+", command) if isinstance(command, str) else command
    plain = [one for word in words if (one := word.partition("::")[0].removeprefix("./"))]
    ends = tuple(f"/{end}" for one in plain for end in (one, f"{one.replace('.', '/')}.py"))
    if any(f"/{change.path}".endswith(ends) or change.path in named.files for change in added):
        return False
    counts = baseline.counts if baseline is not None else None
    return not isinstance(counts, Doubt) and (counts is None or counts.ran > 0)


def of_added_tests(
    without: TestRun | None,
    baseline: TestRun | None = None,
    allowance: Allowance = _NO_FEWER,
) -> Finding | None:
    """The finding for work that is green only because of the tests that it adds.

    The test is red without them, or they replace lost tests of the base. A red run without a red
    test is accepted, for example for low coverage. A run without an answer ships nothing either;
    only a crash of its own is the agent's to repair.
    """
    if without is None or without.kind is RunKind.CANCELLED:
        return None
    red = f"without the tests that it adds: {without.reason}; with them it is green"
    if without.kind not in (RunKind.GREEN, RunKind.RED):
        crashed = without.kind is RunKind.KILLED and of_test(without).verdict is Verdict.FAILED
        return _against_the_work(red, by_agent=crashed)
    if ends_well(without):
        fewer = [one for one in of_counts(without, baseline, allowance) if one.is_held]
        why = "without the tests that it adds: "
        return replace(fewer[0], check=CHECK, reason=f"{why}{fewer[0].reason}") if fewer else None
    return _against_the_work(f"{red}: a new test must not change the result of others")


def ends_well(without: TestRun) -> bool:
    """True for a green run, and for a red run without a red test."""
    counts = without.counts
    return without.green or (isinstance(counts, Counts) and bool(counts.ran) and not counts.failed)


def of_missing_files(
    against: Finding,
    without: TestRun,
    added: Sequence[Change],
    *,
    in_place: TestRun | None,
    in_place_against: Finding | None,
    alone_green: bool,
) -> Finding:
    """The finding for a run that was red without the files of the added tests.

    `against` is the finding of this run. A test of the base may only miss the files: then it is
    green `in_place`, a run with the files there and their tests left out by the runner. If the
    runner cannot do that, its output names a missing file. A red that the files alone explain is a
    doubt. It counts against the work if a red base is green with nothing but the new tests.
    """
    if alone_green:
        why = f"{against.reason}; on the base it is green with the new tests alone"
        return _against_the_work(why)
    if in_place is not None and in_place_against is not None:
        return in_place_against
    if in_place is None and not names_one(without.output, added):
        return against
    why = f"without the files of its added tests: {without.reason}"
    seen = "a test looks for these files" if in_place is None else "with the files it is green"
    return Finding(CHECK, FindingKind.DOUBT, f"{why}; {seen}")


def names_one(output: str, added: Sequence[Change]) -> bool:
    """True if an output names an added file, or the module that the file tests by its name."""
    paths = [change.path for change in added]
    words = {*map(posixpath.basename, paths), *stems_in_output(paths)}
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", output) for word in words)


def _against_the_work(reason: str, *, by_agent: bool = True) -> Finding:
    """A doubt that counts: the base is clear, and leaving out the work's own tests caused it."""
    return Finding(
        CHECK, FindingKind.DOUBT, reason, on_base=False, names_change=True, by_agent=by_agent
    )
