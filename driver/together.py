"""What is said of items that are left out because of the others: the sentences, pure."""

from __future__ import annotations

from collections.abc import Sequence

from driver.guilty import Answer, Blame, Items
from driver.outcome import TestRun

FOLDER = "integration"


def moved_under(branch: str | None, paths: Sequence[str]) -> str:
    """Why an item cannot stand on the commits that came to the branch meanwhile."""
    return (
        f"{branch or 'the branch'} moved on meanwhile and changed what this item changes too:"
        f" {', '.join(paths)}; pull, and the next run starts from there"
    )


def there_already(branch: str | None) -> str:
    """Why an item is not put where its work has come from elsewhere."""
    return f"{branch or 'the branch'} moved on meanwhile and has these very changes already"


def reason(blame: Blame, run: TestRun, owners: Items, names: Sequence[str]) -> str:
    """Why an item is left out; `owners` have the test of the blame as theirs."""
    company = ", ".join(names[item] for item in blame.company)
    said = run.reason or "no test ran"
    if blame.answer is Answer.RED:
        return _red(blame, run, owners, names, company, said)
    beside = f"green alone, but together with {company}" if company else "on this tree"
    if blame.answer is Answer.FLAKY:
        return f"{beside}: different answers for one tree: `{run.command}`: {said}, then green"
    return f"{beside}: `{run.command}`: {said}"


def _red(
    blame: Blame, run: TestRun, owners: Items, names: Sequence[str], company: str, said: str
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
