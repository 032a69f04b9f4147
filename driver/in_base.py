"""Whether what an item depends on is in the commit that its wave starts from.

A status says that work is shipped or done; only the history says that it can be built on. Looks
once into each repository, and only where an item that is to do depends on a finished one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from driver.cycle_context import Cycle, by_repository
from driver.dependencies import needed
from driver.git import Repository, is_ancestor, open_repository
from driver.landed import landed_here, wave_start
from driver.shipped_items import IN_PROGRESS, KEY, Landed, Shipped
from state_store.item_id import id_of

Item = Mapping[str, Any]


def absent(cycle: Cycle, items: Sequence[Item]) -> dict[str, str]:
    """By id, why nobody can build on a finished item yet: the end of a sentence.

    What is done and was never shipped was done by hand, and counts. Raises GitError.
    """
    asked = [item for item in needed(items) if item.get("status") == IN_PROGRESS or item.get(KEY)]
    found: dict[str, str] = {}
    for top, mine in by_repository(cycle, asked).items():
        found |= dict(_absent_from(top, mine, cycle.environ))
    return found


def _absent_from(
    top: Path, items: Sequence[Item], environ: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    repository = open_repository(top, environ)
    records = {str(id_of(item)): Shipped.of(item) for item in items}
    onto = [record.onto if record else "" for record in records.values()]
    landed = landed_here(repository, environ, onto)
    for name, record in records.items():
        if not _is_there(name, record, landed, repository, environ):
            yield name, _lacking(record, repository)


def _is_there(
    name: str,
    record: Shipped | None,
    landed: Landed,
    repository: Repository,
    environ: Mapping[str, str],
) -> bool:
    if landed.find(name, record):
        return True
    merged = record.merged if record else ""  # without a word of ours in the message, perhaps
    _, start = wave_start(repository)
    return is_ancestor(repository, merged, start, environ)


def _lacking(record: Shipped | None, repository: Repository) -> str:
    branch, start = wave_start(repository)
    base = f"{branch} at {start[:12]}"
    if record is None:
        return f"which is in progress, and of which {base} has no commit"
    what = f"commit {record.commit[:12]}" if record.commit else f"wave {record.wave[:8]}"
    where = f" on branch {record.branch}" if record.branch else ""
    so = "merge it and pull" if not repository.shallow else "merge it, and fetch the whole history"
    return f"whose {what}{where} is not in {base}, which waves start from: {so}"
