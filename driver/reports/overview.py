"""A wave and its items as reports for people show them, from the short document or the whole one.

Pure. Texts are as agents and tests wrote them: the page that shows one escapes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from driver.domain.refusals import last_remedy
from driver.reports import words
from driver.reports.documents import wave_of
from driver.reports.item_times import backend_of, counts_before_and_after, seconds, times
from driver.terminal.safe_text import counted
from state_store.values.lazy_dataclass import dataclass

Json = Mapping[str, Any]
SHIPPED = "shipped"
FAULTS = frozenset({"failed", "refused", "flaky"})  # outcomes of which the work is the cause
_LARGE_LINES, _LARGE_FILES = 200, 10


@dataclass(frozen=True, slots=True)
class DiffSize:
    """The size of an item's change."""

    files: int
    added: int
    removed: int

    @property
    def is_large(self) -> bool:
        """True if a person should read it with more time."""
        return self.added + self.removed > _LARGE_LINES or self.files > _LARGE_FILES

    def to_json(self) -> dict[str, int]:
        """The JSON form."""
        return {"files": self.files, "added": self.added, "removed": self.removed}


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a wave. `outcome` is `shipped` or its verdict. `record` is its line or its whole
    record. `lower_grade` are the reasons for a grade below A."""

    record: Json
    is_shipped: bool
    tests: Json
    started: float | None
    duration_s: float | None
    backend: str | None
    diff: DiffSize | None
    lower_grade: Sequence[str] = ()

    @property
    def slug(self) -> str:
        """The item's name."""
        return str(self.record.get("slug"))

    @property
    def title(self) -> str:
        """The item's title; "" without one."""
        return str(self.record.get("title") or "")

    @property
    def outcome(self) -> str:
        """The word of the table."""
        return SHIPPED if self.is_shipped else str(self.record.get("verdict")).replace("_", " ")

    @property
    def is_good(self) -> bool:
        """True if the work was proven."""
        return self.is_shipped or bool(self.record.get("verified"))

    @property
    def reason(self) -> str:
        """The reason why it did not ship; "" for a shipped item."""
        if self.is_shipped:
            return ""
        keys = ("ship_error", "error", "ship_warning")
        return next((str(self.record[key]) for key in keys if self.record.get(key)), "")

    @property
    def remedy(self) -> str:
        """The thing that a person can do about the reason."""
        if self.is_shipped:
            return ""
        return last_remedy(self.record.get("remedy"), self.record.get("ship_error"))

    @property
    def repairs(self) -> int:
        """The number of repair rounds."""
        return int(self.record.get("repairs") or 0)

    @property
    def tokens(self) -> int | None:
        """All tokens; None if they are unknown."""
        found: int | None = (self.record.get("usage") or {}).get("totalTokens")
        return found

    @property
    def cost_usd(self) -> float | None:
        """The cost; None if it is unknown."""
        found: float | None = (self.record.get("usage") or {}).get("costUsd")
        return found

    @property
    def use(self) -> tuple[str, str]:
        """Tokens and cost in words; a dash for an item that no agent has worked on."""
        if not self.record.get("dispatched") and self.tokens is None and self.cost_usd is None:
            return words.NONE, words.NONE
        return words.tokens(self.tokens), words.dollars(self.cost_usd)

    def risks(self) -> list[tuple[int, str]]:
        """The reasons to read this item before others: weight and sentence, the heaviest first."""
        record = self.record
        found = []
        if (grade := record.get("grade")) and grade != "A":
            why = f": {'; '.join(self.lower_grade[:2])}" if self.lower_grade else ""
            found.append((40, f"evidence of grade {grade}{why}"))
        if written := record.get("selfWrittenTests"):
            found.append((25, f"the agent wrote tests itself: {_some(written)}"))
        if changed := record.get("afterApproval"):
            found.append((30, f"changed after the review: {_some(changed)}"))
        if record.get("flaky"):
            found.append((25, "its test gave different answers for the same work"))
        if self.diff and self.diff.is_large:
            size = f"{self.diff.added + self.diff.removed} lines in {self.diff.files} files"
            found.append((20, f"a large change: {size}"))
        if self.repairs:
            found.append((8 * self.repairs, f"needed {counted(self.repairs, 'repair round')}"))
        after = self.tests.get("after") or {}
        if self.is_good and after and "ran" not in after:
            found.append((10, "its test runner printed no number of tests"))
        if self.tokens is None and record.get("dispatched"):
            found.append((1, "its use of tokens was not measured"))
        return sorted(found, key=lambda one: -one[0])


@dataclass(frozen=True, slots=True)
class Overview:
    """A wave. `started` is None if no phase ran."""

    report: Json
    wave: Json
    items: tuple[Item, ...]

    @property
    def wave_id(self) -> str:
        """The wave's id."""
        return str(self.wave.get("wave_id"))

    @property
    def shipped(self) -> tuple[Item, ...]:
        """The shipped items."""
        return tuple(item for item in self.items if item.is_shipped)

    @property
    def ships(self) -> bool:
        """True if verified items were to ship."""
        return self.wave.get("shipped") is not None

    @property
    def headline(self) -> str:
        """The number of shipped items, or of proven ones where nothing was to ship."""
        done, word = (len(self.shipped), "shipped") if self.ships else (self.proven, "verified")
        return f"{done} of {counted(len(self.items), 'item')} {word}"

    @property
    def proven(self) -> int:
        """The number of proven items."""
        return sum(item.is_good for item in self.items)

    @property
    def ordered(self) -> list[Item]:
        """Items that need a person first, then the others, each as in the wave."""
        return sorted(self.items, key=lambda item: (item.is_shipped, item.is_good))

    @property
    def not_done(self) -> list[Item]:
        """The items that did not ship, or without proof where nothing was to ship."""
        return [
            item for item in self.ordered if not (item.is_shipped if self.ships else item.is_good)
        ]

    @property
    def use(self) -> tuple[str, str]:
        """Tokens and cost in words; each is a lower bound if a dispatch has no known amount."""
        sums = self.wave.get("tokens") or {}
        unmetered, unpriced = sums.get("unmetered") or 0, sums.get("unpriced") or 0
        used = sums.get("total") or None if unmetered else sums.get("total")
        spent = sums.get("costUsd")
        if spent is None and used == 0 and not unpriced:
            spent = 0.0  # no agent was begun
        return (
            words.at_least(words.tokens(used), unmetered),
            words.at_least(words.dollars(spent), unpriced),
        )

    @property
    def ended_at(self) -> str:
        """The time of the report; "" if it has none."""
        return str(self.report.get("timestamp") or "")

    @property
    def started(self) -> float | None:
        """The begin of the first phase."""
        return min((item.started for item in self.items if item.started is not None), default=None)

    @property
    def duration_s(self) -> float | None:
        """The time from the first phase to the end of the last one, or to the report."""
        if self.started is None:
            return None
        ends = [i.started + (i.duration_s or 0) for i in self.items if i.started is not None]
        ended = seconds(self.ended_at)
        return max([*ends, *([ended] if ended else [])]) - self.started

    def to_read_first(self) -> list[tuple[Item, list[str]]]:
        """The proven items by risk, the riskiest first, with the reasons. An item whose only reason
        is its unknown use is left out."""
        found = [(item, item.risks()) for item in self.items if item.is_good]
        risky = [pair for pair in found if sum(weight for weight, _ in pair[1]) > 1]
        risky.sort(key=lambda pair: -sum(weight for weight, _ in pair[1]))
        return [(item, [why for _, why in risks]) for item, risks in risky]


def overview(report: Json) -> Overview:
    """The wave of a report."""
    wave = wave_of(report)
    shipped = frozenset(wave.get("shipped") or ())
    lower = {one["slug"]: one.get("why") or () for one in wave.get("read_first") or ()}
    built = wave.get("built") or ()
    items = (_item(one, shipped, lower.get(one.get("slug"), ())) for one in built)
    return Overview(report, wave, tuple(items))


def _item(record: Json, shipped: frozenset[str], lower_grade: Sequence[str]) -> Item:
    known = record if "tests" in record else {**times(record), "backend": backend_of(record)}
    diff = record.get("diff")
    return Item(
        record=record,
        is_shipped=record.get("slug") in shipped,
        tests=record["tests"] if "tests" in record else counts_before_and_after(record),
        started=seconds(known.get("startedAt")) if known.get("startedAt") else None,
        duration_s=known.get("durationS"),
        backend=known.get("backend"),
        diff=DiffSize(**diff) if isinstance(diff, Mapping) else None,
        lower_grade=lower_grade,
    )


def _some(names: Sequence[object]) -> str:
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return ", ".join(str(name) for name in names[:2]) + more
