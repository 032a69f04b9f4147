"""The result of a test on a batch's tree, and the reasons to evict items. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from driver.domain.results import RunKind, TestRun
from driver.merge_queue.culprits import Answer, Culprit, Items
from driver.policy import known_red
from driver.policy.count_rules import judge_counts
from driver.runners.counts import Allowance, Counts
from state_store.values.lazy_dataclass import dataclass, replace

FOLDER = "integration"


@dataclass(frozen=True, slots=True)
class Expected:
    """The counts that a test must reach on the tree of some items. It must run as many tests as in
    the `proofs` of the items that own it, less the number that all items may omit. Empty for a test
    that no item owns, and if the head moved."""

    proofs: tuple[TestRun, ...] = ()
    fewer_tests_ok: int = 0


def assess_counts(run: TestRun, expected: Expected) -> TestRun:
    """The run, but red if its counts contradict exit code 0, and green if exactly the tests are red
    that are known to be red by every proof."""
    known = [{*proof.known_red} for proof in expected.proofs]
    code = expected.proofs[0].exit_code if expected.proofs else None
    run = known_red.accepted(run, set.intersection(*known) if known else (), code)
    if not run.green:
        return run
    counts = run.counts if isinstance(run.counts, Counts) else None
    problems = [judge_counts(counts, None)] if counts else []
    # More skipped tests with the same number of runs are tests that an item added and skipped.
    allowance = Allowance(expected.fewer_tests_ok, counts.skipped if counts else 0)
    problems += [judge_counts(run.counts, proof.counts, allowance) for proof in expected.proofs]
    problem = next(filter(None, problems), "")
    return replace(run, kind=RunKind.RED, reason=problem) if problem else run


def moved_under(branch: str | None, paths: Sequence[str]) -> str:
    """The reason to evict an item that conflicts with newer commits of the branch."""
    return (
        f"{branch or 'the branch'} moved on meanwhile and has other changes of the same files:"
        f" {', '.join(paths)}; pull, and the next run starts from there"
    )


def there_already(branch: str | None) -> str:
    """The reason to evict an item if the branch already has its changes."""
    return f"{branch or 'the branch'} moved on meanwhile and has these very changes already"


def reason(culprit: Culprit, run: TestRun, owners: Items, names: Sequence[str]) -> str:
    """The reason to evict an item; `owners` are the items that own the test."""
    item, items = culprit.item, culprit.items
    others = ", ".join(names[other] for other in culprit.company)
    together = f"green alone, but together with {others}" if others else ""
    ended = f"`{run.command}`: {run.reason}"
    if culprit.answer is Answer.FLAKY:
        return f"{together or 'on this tree'}: different answers for one tree: {ended}, then green"
    if culprit.answer is not Answer.RED:
        return f"{together or 'on this tree'}: {ended}"
    if not items:
        return f"red without any item, so it proves nothing: {ended}"
    if not others and item in owners:
        return f"green on its base, but not on the target branch: {ended}"
    broken = sorted(owners & items - {item}) or sorted(owners & items)
    breaker = culprit.company[0] if broken == [item] else item
    whose = f"{names[broken[0]]}'s test" if broken else "the integration command"
    return f"{together}{': ' if together else ''}{names[breaker]} breaks {whose} {ended}"
