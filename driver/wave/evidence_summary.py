"""The evidence of a wave's items as people need it: what to read first, and the doubts that belong
to the project. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from driver.domain.findings import Grade
from driver.domain.results import ItemOutcome


def read_first(shipped: Iterable[ItemOutcome]) -> list[dict[str, Any]]:
    """The shipped items whose evidence is below grade A, the lowest grade first."""
    lower = [one for one in shipped if one.grade is not None and one.grade is not Grade.A]
    lower.sort(key=lambda one: (str(one.grade), len(one.evidence.findings)), reverse=True)
    return [
        {
            "slug": one.slug,
            "grade": str(one.grade),
            "why": [*(found.reason for found in one.evidence.findings), *one.lacks],
        }
        for one in lower
    ]


def project_doubts(outcomes: Iterable[ItemOutcome]) -> list[dict[str, Any]]:
    """The findings that the base shows as well, each once, with the items that met it."""
    items: dict[tuple[str, str, str], list[str]] = {}
    for outcome in outcomes:
        for one in outcome.evidence.findings:
            if one.is_held or not one.is_of_project:
                continue
            items.setdefault((one.check, one.reason, one.remedy), []).append(outcome.slug)
    return [
        {"check": check, "reason": reason, "remedy": remedy or None, "items": slugs}
        for (check, reason, remedy), slugs in items.items()
    ]
