"""What of a wave's report and journal the tracker keeps of a shipment."""

from __future__ import annotations

from typing import Any

import pytest

from driver.backlog.publication_status import Shipped
from driver.backlog.selection import Selection
from driver.scheduler.report import WaveResults

SELECTION = Selection(({"id": 1, "slug": "a"},), ())
BASES = [{"repo": "/r", "commit": "b1", "branch": "main"}]
TWO = [*BASES, {"repo": "/s", "commit": "b2", "branch": "dev"}]
TOLD = {"wave_id": "now", "branch": "wave/now", "base": BASES}
ENTRY = {"commit": "c1", "waveId": "then", "branch": "wave/then"}


@pytest.mark.parametrize(
    ("told", "record", "entry", "kept"),
    [
        ({}, {}, {}, Shipped("now", "c1", "wave/now", "main", "b1")),
        ({}, {}, {**ENTRY, "commit": "c0"}, Shipped("now", "c1", "wave/now", "main", "b1")),
        (
            {},
            {"skipped_from_journal": True},
            ENTRY,
            Shipped("then", "c1", "wave/then", "main"),
        ),
        (
            {"base": TWO, "branch": None},
            {},
            {**ENTRY, "waveId": "now"},
            Shipped("now", "c1", "wave/then", "dev", "b2"),
        ),
        ({"base": None, "branch": 7}, {}, {}, Shipped("now", "c1")),
        ({}, {"commit": None}, ENTRY, None),
    ],
)
def test_a_shipment_is_kept_as_the_wave_that_made_it_tells(
    told: dict[str, Any], record: dict[str, Any], entry: dict[str, Any], kept: Shipped | None
) -> None:
    built = [{"slug": "a", "commit": "c1", **record}]
    results = WaveResults.of({**TOLD, **told, "built": built, "shipped": ["a"]}, SELECTION)
    assert results.shipment("a", "/s", [entry]) == kept
