"""The result of a test on the tree of several items, and the reasons to leave items out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from driver.domain.results import RunKind, TestRun
from driver.merge_queue.culprits import Answer, Culprit, Items
from driver.runners.counts import Allowance, Counts, judge_counts

FOLDER = "integration"


@dataclass(frozen=True, slots=True)
class Expected:
    """The counts that a test must reach on the tree of some items: no fewer tests than in the
    `proofs` of those whose own test it is, but for the number that all these items may leave out.
    Empty for a test that is no item's own, and on other commits than the proofs started from."""

    proofs: tuple[TestRun, ...] = ()
    fewer_tests_ok: int = 0


def assess_counts(run: TestRun, expected: Expected) -> TestRun:
    """The run, red where its exit code is 0 and its counts say otherwise."""
    if not run.green:
        return run
    counts = run.counts if isinstance(run.counts, Counts) else None
    problems = [judge_counts(counts, None)] if counts else []
    # More skipped ones beside as many that ran are tests that an item added and skipped.
    allowance = Allowance(expected.fewer_tests_ok, counts.skipped if counts else 0)
    problems += [judge_counts(run.counts, proof.counts, allowance) for proof in expected.proofs]
    problem = next(filter(None, problems), "")
    return replace(run, kind=RunKind.RED, reason=problem) if problem else run


def moved_under(branch: str | None, paths: Sequence[str]) -> str:
    """The reason why an item cannot stand on the commits that came to the branch meanwhile."""
    return (
        f"{branch or 'the branch'} moved on meanwhile and changed what this item changes too:"
        f" {', '.join(paths)}; pull, and the next run starts from there"
    )


def there_already(branch: str | None) -> str:
    """The reason why an item is left out whose work came to the branch from elsewhere."""
    return f"{branch or 'the branch'} moved on meanwhile and has these very changes already"


def reason(culprit: Culprit, run: TestRun, owners: Items, names: Sequence[str]) -> str:
    """The reason why an item is left out; `owners` are the items whose own test it is."""
    item, items = culprit.item, culprit.items
    others = ", ".join(names[other] for other in culprit.company)
    together = f"green alone, but together with {others}" if others else ""
    ended = f"`{run.command}`: {run.reason}"
    if culprit.answer is Answer.FLAKY:
        return f"{together or 'on this tree'}: different answers for one tree: {ended}, then green"
    if culprit.answer is not Answer.RED:
        return f"{together or 'on this tree'}: {ended}"
    if not items:
        return f"red without any item, so nothing can be shown by it: {ended}"
    if not others and item in owners:
        return f"green on its base, but not where it would go: {ended}"
    broken = sorted(owners & items - {item}) or sorted(owners & items)
    breaker = culprit.company[0] if broken == [item] else item
    whose = f"{names[broken[0]]}'s test" if broken else "the integration command"
    return f"{together}{': ' if together else ''}{names[breaker]} breaks {whose} {ended}"
