"""Findings of the checks on an item's work, and the grade of its evidence. Frozen data.

A check reports everything that it holds against the work as a `Finding`; it decides no verdict.
A pure check returns a tuple of findings. A check that runs something returns its part of `Evidence`
with them in `Evidence.findings`. `driver.policy.findings` is the one rule that makes a verdict and
a grade of all findings.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from state_store.values.lazy_dataclass import dataclass


class FindingKind(StrEnum):
    """The weight of a finding."""

    OFFENCE = "offence"  # shown by evidence: a foreign file, a red test, a secret
    DOUBT = "doubt"  # a check could not see something, or saw something else than it expected


class Grade(StrEnum):
    """The strength of the evidence for a verified item."""

    A = "A"  # counted, red first, the canary red, the rerun the same, nothing in doubt
    B = "B"  # counted and green; a check was not applicable or is in doubt
    C = "C"  # the exit code alone


@dataclass(frozen=True, slots=True)
class Finding:
    """An objection of one check.

    `check` names the check, in one word. `reason` is a sentence about what was seen, `remedy` what
    a person can do about it. `on_base` is True if the same check shows the same on the base (or on
    the base with the item's test files), False if the base is clear, None if it was not asked.
    `names_change` is True if the check's own evidence names the item's change as the cause.
    `by_agent` is False if the agent could not have done otherwise, so that a person has to decide.
    """

    check: str
    kind: FindingKind
    reason: str
    remedy: str = ""
    on_base: bool | None = None
    names_change: bool = False
    by_agent: bool = True

    @property
    def is_of_project(self) -> bool:
        """True if the base shows it as well, so that no item is at fault."""
        return self.on_base is True

    @property
    def is_held(self) -> bool:
        """True if it ends the item. A doubt does so only if the base is clear and the check's own
        evidence names the item's change."""
        return self.kind is FindingKind.OFFENCE or (self.on_base is False and self.names_change)

    def to_json(self) -> dict[str, Any]:
        """The shape in `evidence.doubts`."""
        return {
            "check": self.check,
            "kind": str(self.kind),
            "reason": self.reason,
            "remedy": self.remedy or None,
            "onBase": self.on_base,
        }


def finding_from_json(record: Mapping[str, Any]) -> Finding:
    """A finding from `evidence.doubts`. Raises KeyError and ValueError."""
    return Finding(
        str(record["check"]),
        FindingKind(record["kind"]),
        str(record["reason"]),
        record["remedy"] or "",
        record["onBase"],
    )
