"""What a `run_wave`, ours or one that a caller put in its place, says of the items selected.

The dict of docs/formats.md is read here once; a replaced `run_wave` may leave out most of its keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from driver.backlog.publication_status import Shipped
from driver.backlog.selection import Selection
from state_store.errors import ExitCode
from state_store.item_id import id_of


@dataclass(frozen=True, slots=True)
class WaveResults:
    """`ids` is the item id of each selected slug, `built` the record of each slug that has one;
    `shipped` are slugs, of selected items only. `told` is everything, as it was answered."""

    told: Mapping[str, Any]
    ids: Mapping[str, str]
    built: Mapping[str, Mapping[str, Any]]
    shipped: tuple[str, ...]

    @classmethod
    def of(cls, told: Mapping[str, Any], selection: Selection) -> WaveResults:
        """Read the answer of a `run_wave`."""
        ids = {item["slug"]: str(id_of(item)) for item in selection.selected}
        built = {record["slug"]: record for record in told.get("built") or ()}
        return cls(told, ids, built, tuple(s for s in told.get("shipped") or () if s in ids))

    @property
    def not_shipped(self) -> tuple[str, ...]:
        """The ids of the selected items that were left behind."""
        return tuple(found for slug, found in self.ids.items() if slug not in self.shipped)

    def shipment(
        self, slug: str, place: str | None, entries: Iterable[Mapping[str, Any]]
    ) -> Shipped | None:
        """What to keep of a shipment, None where no commit is told; `place` is its repository,
        `entries` the journal's of the item: one may know a line that an earlier wave published."""
        record = self.built.get(slug) or {}
        commit = _text(record.get("commit"))
        if not commit:
            return None
        known = (entry for entry in entries if entry.get("commit") == commit)
        mine: Mapping[str, Any] = next(known, {})
        bases = self.told.get("base") or ()
        mine_only = (b for b in bases if len(bases) == 1 or b.get("repo") == place)
        base: Mapping[str, Any] = next(mine_only, {})
        # What an earlier wave has published may be in the base of this one already.
        onto = "" if record.get("skipped_from_journal") else _text(base.get("commit"))
        return Shipped(
            wave=_text(mine.get("waveId")) or _text(self.told.get("wave_id")),
            commit=commit,
            branch=_text(mine.get("branch")) or _text(self.told.get("branch")),
            target=_text(base.get("branch")),
            onto=onto,
        )

    @property
    def error(self) -> str | None:
        """The sentence that says what kept the wave from its end."""
        return self.told.get("error")

    @property
    def exit_code(self) -> int:
        """As told; derived only where a replaced `run_wave` tells none."""
        if "exit_code" in self.told:
            return int(self.told["exit_code"])
        began = self.told.get("preflight_ok") and not self.told.get("aborted")
        proven = all(self.built.get(slug, {}).get("verified") for slug in self.shipped)
        done = began and proven and len(self.shipped) == len(self.ids)
        return int(ExitCode.DONE if done else ExitCode.NOT_ALL_SHIPPED)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
