"""What a test on the tree of several items is worth, and what is said of who is left out. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from driver.domain.results import RunKind, TestRun
from driver.merge_queue.culprits import Answer, Culprit, Items
from driver.runners.counts import Allowance, Counts, judge_counts

FOLDER = "integration"


@dataclass(frozen=True, slots=True)
class Expected:
    """What a test has to count on the tree of some items: no fewer tests than ran in the `proofs`
    of those whose test it is, but for what all of these items may leave out. Nothing is known of
    tests that are nobody's own, and on other commits than the proofs started from."""

    proofs: tuple[TestRun, ...] = ()
    fewer_tests_ok: int = 0


def weighed(run: TestRun, expected: Expected) -> TestRun:
    """The run, red where its exit code is 0 and its counts say otherwise."""
    if not run.green:
        return run
    found = (_missing(run, proof, expected.fewer_tests_ok) for proof in expected.proofs)
    alone = judge_counts(run.counts, None) if isinstance(run.counts, Counts) else None
    problem = next(filter(None, (alone, *found)), "")
    return replace(run, kind=RunKind.RED, reason=problem) if problem else run


def _missing(run: TestRun, proof: TestRun, fewer_tests_ok: int) -> str | None:
    # More skipped ones beside as many that ran are tests that somebody added and skipped.
    skipped = run.counts.skipped if isinstance(run.counts, Counts) else 0
    return judge_counts(run.counts, proof.counts, Allowance(fewer_tests_ok, skipped))


def moved_under(branch: str | None, paths: Sequence[str]) -> str:
    """Why an item cannot stand on the commits that came to the branch meanwhile."""
    return (
        f"{branch or 'the branch'} moved on meanwhile and changed what this item changes too:"
        f" {', '.join(paths)}; pull, and the next run starts from there"
    )


def there_already(branch: str | None) -> str:
    """Why an item is not put where its work has come from elsewhere."""
    return f"{branch or 'the branch'} moved on meanwhile and has these very changes already"


def reason(blame: Culprit, run: TestRun, owners: Items, names: Sequence[str]) -> str:
    """Why an item is left out; `owners` have the test of the blame as theirs."""
    company = ", ".join(names[item] for item in blame.company)
    said = run.reason
    if blame.answer is Answer.RED:
        return _red(blame, run, owners, names, company, said)
    beside = f"green alone, but together with {company}" if company else "on this tree"
    if blame.answer is Answer.FLAKY:
        return f"{beside}: different answers for one tree: `{run.command}`: {said}, then green"
    return f"{beside}: `{run.command}`: {said}"


def _red(
    blame: Culprit, run: TestRun, owners: Items, names: Sequence[str], company: str, said: str
) -> str:
    if not blame.items:
        return f"red without any item, so nothing can be shown by it: `{run.command}`: {said}"
    if not company and blame.item in owners:
        return f"green on its base, but not where it would go: `{run.command}`: {said}"
    broken = sorted(owners & blame.items - {blame.item}) or sorted(owners & blame.items)
    culprit = blame.company[0] if broken == [blame.item] else blame.item
    whose = f"{names[broken[0]]}'s test" if broken else "the integration command"
    alone = f"green alone, but together with {company}: " if company else ""
    return f"{alone}{names[culprit]} breaks {whose} `{run.command}`: {said}"
