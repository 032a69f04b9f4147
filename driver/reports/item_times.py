"""Facts about an item that its record has in several places: times, counts, backend. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

Json = Mapping[str, Any]
BASELINE, PROOF = "baseline", "proof"


class Span(NamedTuple):
    """A phase that ran in this wave; times are in seconds since the epoch."""

    name: str
    role: str
    status: str
    start: float
    end: float


def spans(record: Json) -> list[Span]:
    """The phases of an item that ran in this wave, in order. Phases of an earlier run, and those
    without a time, are left out."""
    found = []
    for phase in record.get("phases") or ():
        start = seconds(phase.get("startedAt"))
        if start is None or phase.get("recalled"):
            continue
        end = start + (phase.get("durationMs") or 0) / 1000
        name, role, status = (str(phase.get(key)) for key in ("phase", "role", "status"))
        found.append(Span(name, role, status, start, end))
    return found


def seconds(stamp: object) -> float | None:
    """The time of an ISO 8601 text, in seconds since the epoch; None if it is no time."""
    try:
        moment = datetime.fromisoformat(str(stamp))
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def times(record: Json) -> dict[str, Any]:
    """`startedAt` and `durationS` of an item, from the begin of its first phase to the end of its
    last; both are null if no phase ran."""
    ran = spans(record)
    if not ran:
        return {"startedAt": None, "durationS": None}
    start, end = min(one.start for one in ran), max(one.end for one in ran)
    stamp = datetime.fromtimestamp(start, UTC).isoformat(timespec="milliseconds")
    return {"startedAt": stamp, "durationS": round(end - start, 3)}


def receipts(record: Json) -> Iterator[Json]:
    """The receipts of all test runs of an item, in order."""
    for attempt in record.get("attempts") or ():
        yield from (attempt.get("evidence") or {}).get("receipts") or ()


def counts_before_and_after(record: Json) -> dict[str, Any]:
    """The item's test on the base, and on its last work: `{kind, ran, failed, skipped}`, without
    numbers if the runner printed none; null if the test did not run."""
    last = {one.get("purpose"): one for one in receipts(record)}
    return {"before": _counts(last.get(BASELINE)), "after": _counts(last.get(PROOF))}


def _counts(receipt: Json | None) -> dict[str, Any] | None:
    if receipt is None:
        return None
    counts = receipt.get("counts") or {}
    numbers = ("ran", "failed", "skipped") if "ran" in counts else ()
    return {"kind": receipt.get("kind"), **{key: counts.get(key) for key in numbers}}


def backend_of(record: Json) -> str | None:
    """The backend of the last agent that worked on the item; None if none did."""
    engines = [phase.get("engine") for phase in record.get("phases") or ()]
    return next((str(one["name"]) for one in reversed(engines) if one and one.get("name")), None)
