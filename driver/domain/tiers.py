"""Verification tiers: the checks for a backend's work, with an item's own settings."""

from __future__ import annotations

from typing import Any

from driver.backend_api.driver import DriverCapabilities
from driver.domain.work_item import WorkItem
from state_store.values.lazy_dataclass import dataclass, replace


@dataclass(frozen=True, slots=True)
class Policy:
    """The checks of one item; `spot_check_frac` is a share from 0 to 1."""

    tier: int
    validate_all_json: bool
    spot_check_frac: float
    repair_cap: int
    require_review: bool

    def to_json(self) -> dict[str, Any]:
        """The JSON form in the report: the table's keys and the tier."""
        return {
            "tier": self.tier,
            "validate_all_json": self.validate_all_json,
            "spot_check_frac": self.spot_check_frac,
            "repair_cap": self.repair_cap,
            "require_adversarial_review": self.require_review,
        }


_TIERS = {
    policy.tier: policy
    for policy in (
        Policy(1, validate_all_json=False, spot_check_frac=0.1, repair_cap=1, require_review=False),
        Policy(2, validate_all_json=True, spot_check_frac=0.5, repair_cap=2, require_review=True),
        Policy(3, validate_all_json=True, spot_check_frac=1.0, repair_cap=2, require_review=True),
        Policy(4, validate_all_json=True, spot_check_frac=1.0, repair_cap=3, require_review=True),
    )
}
TIERS = tuple(_TIERS)
# Fields of a policy that an item can set itself.
_OWN = ("validate_all_json", "spot_check_frac", "repair_cap", "require_review")


def verification_policy(caps: DriverCapabilities) -> dict[str, Any]:
    """The four values of a backend's recommended tier. Raises ValueError unless it is 1 to 4."""
    values = _policy_of_tier(caps.recommended_verification_tier).to_json()
    del values["tier"]
    return values


def policy_for(caps: DriverCapabilities, item: WorkItem) -> Policy:
    """The policy of the item's tier, else the backend's, with the values that the item sets itself.

    Raises ValueError for a tier other than 1 to 4.
    """
    tier = item.verification_tier
    base = _policy_of_tier(caps.recommended_verification_tier if tier is None else tier)
    own = {name: value for name in _OWN if (value := getattr(item, name)) is not None}
    return replace(base, **own)


def _policy_of_tier(tier: object) -> Policy:
    if not isinstance(tier, int) or isinstance(tier, bool) or tier not in _TIERS:
        raise ValueError(f"verification tier {tier!r} is unknown; use one of {TIERS}")
    return _TIERS[tier]
