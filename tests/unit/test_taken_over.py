"""What the tracker is told of an item that another state folder has shipped."""

from __future__ import annotations

import pytest

from driver.backlog.publication_status import PublishedItem, adopted_fields

SEEN = PublishedItem("1a2b3c4d5e", "a", "t", "c1", "wave/1a2b3c4d")


@pytest.mark.parametrize(
    ("notes", "after"),
    [
        (None, "[wave 1a2b3c4d]"),
        ("mine", "mine [wave 1a2b3c4d]"),
        (["mine"], ["mine"]),
        ({"mine": 1}, {"mine": 1}),
    ],
)
def test_notes_that_are_no_text_stay_as_they_are(notes: object, after: object) -> None:
    item = {"id": "a", "status": "todo", "notes": notes}
    told = adopted_fields(item, SEEN, "main", "")
    assert (told["status"], told["notes"]) == ("in_progress", after)
