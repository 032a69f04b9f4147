"""The table of tiers, and that an item's own wish wins over it."""

from __future__ import annotations

from typing import Any

import pytest

from driver.backend_api.driver import DriverCapabilities
from driver.domain.tiers import policy_for, verification_policy
from driver.domain.work_item import WorkItem


def caps(tier: Any) -> DriverCapabilities:
    return DriverCapabilities("d", recommended_verification_tier=tier)


def an_item(**wishes: Any) -> WorkItem:
    return WorkItem("x", "p", ("a",), "true", **wishes)


@pytest.mark.parametrize(
    ("tier", "json", "spot", "repairs", "review"),
    [
        (1, False, 0.10, 1, False),
        (2, True, 0.50, 2, True),
        (3, True, 1.00, 2, True),
        (4, True, 1.00, 3, True),
    ],
)
def test_a_tier_has_its_knobs(
    tier: int, json: bool, spot: float, repairs: int, review: bool
) -> None:
    knobs = {
        "validate_all_json": json,
        "spot_check_frac": spot,
        "repair_cap": repairs,
        "require_adversarial_review": review,
    }
    assert verification_policy(caps(tier)) == knobs
    assert policy_for(caps(tier), an_item()).to_json() == {"tier": tier, **knobs}


@pytest.mark.parametrize("tier", [0, 5, -1, 1.0, True, "1", None, [1]])
def test_an_unknown_tier_is_never_guessed(tier: Any) -> None:
    with pytest.raises(ValueError, match="tier"):
        verification_policy(caps(tier))


def test_a_returned_table_can_be_changed_without_harm() -> None:
    verification_policy(caps(1))["repair_cap"] = 99
    assert verification_policy(caps(1))["repair_cap"] == 1


def test_an_items_own_fields_win_even_when_false_or_zero() -> None:
    item = an_item(repair_cap=0, require_review=False, spot_check_frac=0.0, validate_all_json=False)
    assert policy_for(caps(4), item).to_json() == {
        "tier": 4,
        "validate_all_json": False,
        "spot_check_frac": 0.0,
        "repair_cap": 0,
        "require_adversarial_review": False,
    }


def test_an_items_tier_replaces_the_backends_table() -> None:
    assert policy_for(caps(1), an_item(verification_tier=4)).repair_cap == 3
    assert policy_for(caps(9), an_item(verification_tier=1)).repair_cap == 1
