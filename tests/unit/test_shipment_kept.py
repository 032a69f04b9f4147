"""What of a wave's report and of the known publications the tracker keeps of a shipment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from driver.backlog.publication_status import Shipped
from driver.backlog.selection import Selection
from driver.scheduler.report import WaveResults
from state_store.database.publications import Publication, PublishedCommit

SELECTION = Selection(({"id": 1, "slug": "a"},), ())
BASES = [{"repo": "/r", "commit": "b1", "branch": "main"}]
TWO = [*BASES, {"repo": "/s", "commit": "b2", "branch": "dev"}]
TOLD = {"wave_id": "now", "branch": "wave/now", "base": BASES}
KNOWN = Publication("c1", "/s", "then", "wave/then", None, (PublishedCommit("a", "c1"),))


@pytest.mark.parametrize(
    ("told", "record", "known", "kept"),
    [
        ({}, {}, None, Shipped("now", "c1", "wave/now", "main", "b1")),
        (
            {},
            {},
            replace(KNOWN, items=(PublishedCommit("a", "c0"),)),
            Shipped("now", "c1", "wave/now", "main", "b1"),
        ),
        (
            {},
            {"skipped_from_journal": True},
            KNOWN,
            Shipped("then", "c1", "wave/then", "main"),
        ),
        (
            {"base": TWO, "branch": None},
            {},
            replace(KNOWN, wave="now"),
            Shipped("now", "c1", "wave/then", "dev", "b2"),
        ),
        ({"base": None, "branch": 7}, {}, None, Shipped("now", "c1")),
        ({}, {"commit": None}, KNOWN, None),
    ],
)
def test_a_shipment_is_kept_as_the_wave_that_made_it_tells(
    told: dict[str, Any], record: dict[str, Any], known: Publication | None, kept: Shipped | None
) -> None:
    built = [{"slug": "a", "commit": "c1", **record}]
    results = WaveResults.of({**TOLD, **told, "built": built, "shipped": ["a"]}, SELECTION)
    assert results.shipment("a", "/s", [known] if known else []) == kept
