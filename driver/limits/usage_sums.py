"""Sums the billed usage of a wave's dispatches, by item and by phase. No I/O.

A sum with unknown parts is a lower bound; without known parts it is None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from driver.backend_api.driver import Usage, in_micro_usd
from driver.backend_api.usage import with_least
from driver.domain import phase_receipt
from driver.domain.results import REPAIR, REVIEW, ItemOutcome


def usages_of(outcome: ItemOutcome) -> list[Usage]:
    """The usage of each dispatch for an item in this run."""
    return [usage for _, usage in uses_of([outcome])]


def uses_of(outcomes: Iterable[ItemOutcome]) -> list[tuple[str, Usage]]:
    """Phase and usage of every dispatch of this run, from the outcomes of its items."""
    known = list(outcomes)
    attempts = [attempt for outcome in known for attempt in outcome.attempts]
    looks = [look for outcome in known for look in outcome.reviews if not look.recalled]
    steps = [one for outcome in known for one in outcome.phases if not one.recalled]
    return [
        *((step.phase, step.usage) for step in steps if step.role == phase_receipt.WORKER),
        *((attempt.phase, attempt.usage) for attempt in attempts),
        *((REVIEW, look.usage) for look in looks),
    ]


def token_totals(uses: Sequence[tuple[str, Usage]]) -> dict[str, Any]:
    """Tokens by phase. The token sums are lower bounds unless `unmetered` is 0, the cost unless
    `unpriced` is 0."""
    build = sum_usage(usage for phase, usage in uses if phase not in (REPAIR, REVIEW))
    repair = sum_usage(usage for phase, usage in uses if phase == REPAIR)
    verify = sum_usage(usage for phase, usage in uses if phase == REVIEW)
    total = sum_usage([build, repair, verify])
    known_usd = [usage.known_usd for _, usage in uses]
    priced = any(usage.cost_usd is not None for _, usage in uses)
    return {
        "buildIn": build.input_tokens or 0,
        "buildOut": build.output_tokens or 0,
        "repairIn": repair.input_tokens or 0,
        "repairOut": repair.output_tokens or 0,
        "verifyIn": verify.input_tokens or 0,
        "verifyOut": verify.output_tokens or 0,
        "totalIn": total.input_tokens or 0,
        "totalOut": total.output_tokens or 0,
        "total": sum(usage.known_tokens for _, usage in uses),
        "costUsd": in_micro_usd(math.fsum(known_usd)) if priced or any(known_usd) else None,
        "unmetered": sum(usage.total_tokens is None for _, usage in uses),
        "unpriced": sum(usage.cost_usd is None for _, usage in uses),
    }


def sum_usage(usages: Iterable[Usage]) -> Usage:
    """The sum of the known numbers of each field; None if all are unknown, with a lower bound."""
    known = list(usages)
    whole = Usage(
        _sum([usage.input_tokens for usage in known]),
        _sum([usage.output_tokens for usage in known]),
        _sum([usage.cost_usd for usage in known]),
        _sum([usage.undivided_tokens for usage in known]),
    )
    return with_least(whole, known)


def _sum(values: Sequence[Any]) -> Any:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers else None
