"""Compares past waves: shipped work, reasons against the rest, cost and flakiness. Pure.

An unknown cost is not zero: a sum with an unknown part is a lower bound, and the text says so.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from driver.domain.refusals import ON_BASE_TOO, words_of
from driver.reports.overview import Item, overview
from state_store.values.lazy_dataclass import dataclass

Json = Mapping[str, Any]
UNNAMED = "unknown"
_NEVER_RAN = frozenset({"halted", "over budget", "leased elsewhere", "shipped elsewhere"})


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums of some items. `cost_usd` is None if no cost is known; `unpriced` items have an
    unknown cost."""

    items: int
    shipped: int
    repairs: int
    flaky: int
    tokens: int | None
    cost_usd: float | None
    unpriced: int

    @property
    def cost_per_shipped(self) -> float | None:
        """The cost of all items for each shipped one; a lower bound if some are unpriced. None if
        nothing was shipped or no cost is known."""
        if not self.shipped or self.cost_usd is None:
            return None
        return self.cost_usd / self.shipped

    def to_json(self) -> dict[str, Any]:
        """The JSON form."""
        per = self.cost_per_shipped
        return {
            "items": self.items,
            "shipped": self.shipped,
            "repairs": self.repairs,
            "flaky": self.flaky,
            "tokens": self.tokens,
            "costUsd": None if self.cost_usd is None else round(self.cost_usd, 4),
            "unpriced": self.unpriced,
            "costPerShippedUsd": None if per is None else round(per, 4),
        }


@dataclass(frozen=True, slots=True)
class Compared:
    """A wave beside others. `reasons` counts the reasons against its unshipped `items`."""

    wave_id: str
    ended: float
    duration_s: float | None
    sums: Sums
    reasons: Mapping[str, int]
    items: tuple[Item, ...]

    @property
    def day(self) -> str:
        """The day and time of its end, in UTC."""
        return datetime.fromtimestamp(self.ended, UTC).strftime("%Y-%m-%d %H:%M")

    def to_json(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "wave_id": self.wave_id,
            "ended": datetime.fromtimestamp(self.ended, UTC).isoformat(timespec="seconds"),
            "durationS": self.duration_s,
            **self.sums.to_json(),
            "reasons": dict(self.reasons),
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several waves, the newest first, with the sums of all their items."""

    waves: tuple[Compared, ...]
    total: Sums
    by_backend: Mapping[str, Sums]
    by_model: Mapping[str, Sums]
    reasons: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "waves": [one.to_json() for one in self.waves],
            "total": self.total.to_json(),
            "by_backend": {name: sums.to_json() for name, sums in self.by_backend.items()},
            "by_model": {name: sums.to_json() for name, sums in self.by_model.items()},
            "reasons": dict(self.reasons),
        }


def compared(ended: float, report: Json) -> Compared:
    """The wave of a report, with the time of its end in seconds since the epoch."""
    view = overview(report)
    sums, reasons = _sums(view.items), _reasons(view.items)
    return Compared(view.wave_id, ended, view.duration_s, sums, reasons, view.items)


def compare(waves: Iterable[Compared]) -> Comparison:
    """The comparison of the waves."""
    waves = tuple(waves)
    items = [item for one in waves for item in one.items]
    return Comparison(
        waves=waves,
        total=_sums(items),
        by_backend=_grouped(items, lambda item: item.backend),
        by_model=_grouped(items, lambda item: item.record.get("model")),
        reasons=_reasons(items),
    )


def _sums(items: Sequence[Item]) -> Sums:
    costs = [item.cost_usd for item in items if _was_asked(item)]
    known = [cost for cost in costs if cost is not None]
    tokens = [item.tokens for item in items if item.tokens is not None]
    return Sums(
        items=len(items),
        shipped=sum(item.is_shipped for item in items),
        repairs=sum(item.repairs for item in items),
        flaky=sum(bool(item.record.get("flaky")) for item in items),
        tokens=sum(tokens) if tokens else None,
        cost_usd=sum(known) if known else None,
        unpriced=len(costs) - len(known),
    )


def _was_asked(item: Item) -> bool:
    """True if an agent worked on the item in this wave, so that it has a cost."""
    return bool(item.record.get("dispatched"))


def _grouped(items: Sequence[Item], name_of: Callable[[Item], object]) -> dict[str, Sums]:
    """The sums by name, the most items first; items that no agent has worked on are left out."""
    groups: dict[str, list[Item]] = defaultdict(list)
    for item in filter(_was_asked, items):
        groups[str(name_of(item) or UNNAMED)].append(item)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    return {name: _sums(group) for name, group in ordered}


def _reasons(items: Iterable[Item]) -> dict[str, int]:
    """The number of unshipped items by reason, the most frequent first."""
    found = Counter(_reason(item) for item in items if not item.is_shipped and not _is_kept(item))
    return dict(found.most_common())


def _is_kept(item: Item) -> bool:
    """True for proven work that was not to ship."""
    return item.is_good and not item.record.get("ship_error")


def _reason(item: Item) -> str:
    """The words of our table of refusals, which are the same for the same reason."""
    if item.outcome in _NEVER_RAN:
        return item.outcome
    said, on_base, _ = item.reason.partition(f"; {ON_BASE_TOO}")
    named = words_of(said)
    if on_base:
        named = f"{named}; {ON_BASE_TOO}" if named else ON_BASE_TOO
    return f"{item.outcome}: {named}" if named else item.outcome
