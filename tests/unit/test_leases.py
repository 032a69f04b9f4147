"""Who may try and who is right, decided from a row and a moment alone."""

from __future__ import annotations

import pytest

from state_store.coordination import fold_claims
from state_store.database.leases import Lease, LeaseLostError, LeaseRow, grant, required
from state_store.documents.clock import Instant, SystemClock

NOW = Instant("boot", 100.0, 5000.0)
ROW = grant("item", 3, "me", 10.0, NOW)


@pytest.mark.parametrize(
    ("now", "held"),
    [
        (Instant("boot", 109.9, 5009.9), True),
        (Instant("boot", 110.0, 5010.0), False),
        (Instant("boot", 105.0, 0.0), True),  # the wall clock fell to 1970
        (Instant("boot", 105.0, 9e9), True),  # or leapt ahead
        (Instant("boot", 110.1, 4000.0), False),
        (Instant("other", 0.0, 5009.0), True),
        (Instant("other", 0.0, 5010.0), False),
        (Instant("other", 0.0, 4999.0), False),  # stands before the grant: it has jumped
    ],
)
def test_a_lease_ends_by_the_clock_that_cannot_jump(now: Instant, held: bool) -> None:
    assert ROW.held_at(now) is held


def test_where_the_boot_is_unknown_the_wall_clock_counts() -> None:
    row = grant("item", 1, "me", 10.0, Instant("", 100.0, 5000.0))
    assert row.held_at(Instant("", 500.0, 5009.0))
    assert not row.held_at(Instant("", 100.0, 5011.0))


def test_a_lease_given_back_is_held_by_nobody() -> None:
    assert not grant("item", 3, None, 10.0, NOW).held_at(NOW)


def test_an_extended_lease_keeps_its_token_and_gets_its_full_time() -> None:
    later = Instant("boot", 105.0, 5005.0)
    assert ROW.extended(later) == LeaseRow("item", 3, "me", "boot", 115.0, 5015.0, 10.0)


@pytest.mark.parametrize(
    ("row", "current"),
    [
        (None, None),
        (grant("item", 4, "you", 10.0, NOW), 4),
        (grant("item", 4, "me", 10.0, NOW), 4),
        (grant("item", 3, None, 10.0, NOW), None),
    ],
)
def test_only_the_current_token_is_right(row: LeaseRow | None, current: int | None) -> None:
    with pytest.raises(LeaseLostError) as lost:
        required(row, Lease("item", "me", 3, 110.0))
    assert (lost.value.resource, lost.value.token, lost.value.current) == ("item", 3, current)


def test_a_lease_past_its_time_that_nobody_took_is_still_right() -> None:
    assert required(ROW, Lease("item", "me", 3, 110.0)) is ROW


def claim(version: int, kind: str, holder: str, resource: str = "r") -> dict[str, object]:
    payload = {"resource": resource, "instance_id": holder}
    return {"version": version, "type": f"claim_{kind}", "payload": payload}


@pytest.mark.parametrize(
    ("events", "holders"),
    [
        ([], {}),
        ([claim(1, "requested", "a")], {"r": "a"}),
        ([claim(1, "requested", "a"), claim(2, "requested", "b")], {"r": "a"}),
        ([claim(2, "requested", "b"), claim(1, "requested", "a")], {"r": "a"}),
        ([claim(1, "requested", "a"), claim(2, "released", "a")], {}),
        (
            [claim(1, "requested", "a"), claim(2, "requested", "b"), claim(3, "released", "a")],
            {"r": "b"},
        ),
        (
            [claim(1, "requested", "a"), claim(2, "released", "a"), claim(3, "requested", "a")],
            {"r": "a"},
        ),
        ([claim(1, "released", "b"), {"version": 2, "type": "other", "payload": 5}], {}),
        ([claim(1, "requested", "a", "x"), claim(2, "requested", "b", "y")], {"x": "a", "y": "b"}),
    ],
)
def test_the_oldest_claim_not_given_back_holds(
    events: list[dict[str, object]], holders: dict[str, str]
) -> None:
    assert fold_claims(events) == holders


def test_the_machine_knows_its_boot_and_its_clocks_go_forward() -> None:
    clock = SystemClock()
    first, second = clock.now(), clock.now()
    assert first.boot_id == second.boot_id
    assert 0 < first.monotonic_s <= second.monotonic_s
