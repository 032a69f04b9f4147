"""Prices tokens, and checks the use that backends report. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from driver.backend_api.driver import AgentDriver, Usage, WorkerResult
from driver.backend_api.models import PRICES, Price, cost_of
from tools.budget.ceilings import counted, priced

_LEFT_SHARE = 0.2  # of a dispatch's tokens are output, which costs more


def price(
    drivers: Iterable[AgentDriver], model: str, tokens: int, own: Mapping[str, Price]
) -> float | None:
    """The probable cost of `tokens` in USD; None if unknown.

    If a backend reports its cost, a model of unknown price gets the highest known price.
    """
    left = int(tokens * _LEFT_SHARE)
    usage = Usage(tokens - left, left)
    known = cost_of(model, usage, own)
    if known is None and any(driver.reports_cost() for driver in drivers):
        costs = (cost_of(name, usage) for name in PRICES)
        return max(cost for cost in costs if cost is not None)
    return known


def sound(result: WorkerResult, model: str, own: Mapping[str, Price]) -> Usage:
    """The credible use of a dispatch. Values that are not numbers are unknown. A total without
    parts is accepted. A missing cost is computed if the price is known."""
    reported: object = result.usage  # a foreign backend's may be anything
    used = reported if isinstance(reported, Usage) else Usage()
    usage = Usage(
        counted(used.input_tokens),
        counted(used.output_tokens),
        used.cost_usd if priced(used.cost_usd) is not None else None,
        counted(used.undivided_tokens),
        counted(used.least_tokens) or 0,
        used.least_usd if priced(used.least_usd) is not None else 0.0,
    )
    if usage.total_tokens is None:
        usage = replace(usage, undivided_tokens=counted(result.tokens_spent))
    if usage.cost_usd is None:
        cost = 0.0 if usage.total_tokens == 0 else cost_of(model, usage, own)
        least = max(usage.least_usd, _least_cost(model, usage, own))
        usage = replace(usage, cost_usd=cost, least_usd=least)
    return usage


def _least_cost(model: str, usage: Usage, own: Mapping[str, Price]) -> float:
    """The minimum cost of the known tokens. Tokens of unknown kind get the lowest price, that of
    cached tokens if known."""
    entered, left = usage.input_tokens or 0, usage.output_tokens or 0
    rest = Usage(usage.known_tokens - entered - left, 0)
    cheapest = cost_of(model, rest, own, cached_tokens=usage.known_tokens)
    more = cost_of(model, rest, own) if cheapest is None else cheapest
    return (cost_of(model, Usage(entered, left), own) or 0.0) + (more or 0.0)
