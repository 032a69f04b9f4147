"""That a machine works on an item is no decision: people's words go before it."""

from __future__ import annotations

from typing import Any

import pytest

from state_store.tracker.merge import merge_item


@pytest.mark.parametrize("status", ["done", "blocked", "mine", None])
def test_a_claim_gives_way_to_what_a_person_says_in_the_same_moment(status: Any) -> None:
    found = merge_item("A", {"status": "todo"}, {"status": "claimed"}, {"status": status})
    assert (dict(found.to_store.set), found.conflicts) == ({"status": status}, ())
    assert not found.to_file


def test_a_claim_that_a_person_wrote_and_a_result_of_ours_contradict_each_other() -> None:
    found = merge_item("A", {"status": "todo"}, {"status": "in_progress"}, {"status": "claimed"})
    assert [conflict.field for conflict in found.conflicts] == ["status"]
