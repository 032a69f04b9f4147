"""The last lines of a run, for people: what shipped and where, and where the rest is kept.

Pure: reads the report that programs get, and says nothing that is not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from driver.text import typed

Json = Mapping[str, Any]


def closing_lines(report: Json) -> tuple[str, ...]:
    """For a wave's or a cycle's report; no lines where no item was begun."""
    wave = report.get("wave") or report
    built: Sequence[Json] = wave.get("built") or ()
    if not built:
        return ()
    shipped = wave.get("shipped")
    open_items = [record for record in built if record["slug"] not in (shipped or ())]
    return (
        _count(built, shipped),
        *(_unshipped(record) for record in open_items),
        *(line for repo in wave.get("shipped_repos") or () for line in _shipment(repo)),
    )


def _count(built: Sequence[Json], shipped: Sequence[str] | None) -> str:
    items = "1 item" if len(built) == 1 else f"{len(built)} items"
    if shipped is not None:
        return f"shipped {len(shipped)} of {items}"
    verified = sum(bool(record["verified"]) for record in built)
    return f"verified {verified} of {items}; nothing is shipped without --git"


def _unshipped(record: Json) -> str:
    why = record.get("ship_error") or record.get("error")
    line = f"{record['slug']}: {record['verdict']}" + (f": {why}" if why else "")
    kept = record.get("savedWork")
    return line + (f"; its work: {kept}" if kept else "")


def _shipment(repo: Json) -> Iterator[str]:
    branch, warning = repo.get("branch"), repo.get("warning")
    if not branch or not repo.get("sha"):
        return
    state = "kept, not shipped" if repo.get("error") else warning or "pushed"
    yield f"branch {branch}: {state}"
    yield "look: " + typed("git", "-C", repo["repo"], "log", "--stat", f"HEAD..{branch}")
