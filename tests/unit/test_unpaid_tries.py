"""An item for which nothing was paid waits for nothing, once the cause may be gone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from driver.backlog.retry_policy import NEXT, RetryPolicy
from driver.scheduler.report import WaveResults
from driver.scheduler.tracker_update import Terms, edits_for

TERMS = Terms("w", {}, RetryPolicy(3, 60.0, 600.0), datetime(2026, 1, 1, tzinfo=UTC))
FREE = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0, "costUsd": None}
UNKNOWN = dict.fromkeys(FREE)
PAID = {**FREE, "inputTokens": 5, "totalTokens": 5}


@pytest.mark.parametrize(
    ("record", "abort_reason", "waits"),
    [
        ({"usage": FREE}, None, False),
        ({"usage": UNKNOWN}, "backend_refused", False),
        ({"usage": UNKNOWN}, "parked", False),
        ({"usage": UNKNOWN}, None, True),
        ({"usage": UNKNOWN, "dispatched": False, "attempts": []}, None, False),
        ({"usage": PAID}, "backend_refused", True),
        ({"usage": FREE, "testExit": 2}, None, True),
        ({}, None, True),
    ],
)
def test_an_undecided_item_waits_only_if_it_cost_something(
    record: dict[str, Any], abort_reason: str | None, waits: bool
) -> None:
    built = {"slug": "a", "verdict": "undecided", "error": "401", "dispatched": True, **record}
    results = WaveResults({"abort_reason": abort_reason}, {"a": "A"}, {"a": built}, ())
    item = {"id": "A", "slug": "a", "status": "claimed", "attempts": 1}
    fields = edits_for(results, TERMS)["A"](item)
    assert (NEXT in fields) is waits
    assert (fields["status"], fields["attempts"], fields["lastError"]) == ("todo", 1, "401")
