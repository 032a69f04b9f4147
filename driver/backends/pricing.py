"""What tokens cost, and what is believed of the use that a backend tells. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from driver.backend_api.driver import AgentDriver, Usage, WorkerResult
from driver.backend_api.models import PRICES, Price, cost_of
from tools.budget.ceilings import counted, priced

_LEFT_SHARE = 0.2  # of a dispatch's tokens leave the model; those are the dear ones


def price(
    drivers: Iterable[AgentDriver], model: str, tokens: int, own: Mapping[str, Price]
) -> float | None:
    """What so many tokens will probably cost in USD; None where nobody will know.

    Where a backend tells its own cost, a model of unknown price is priced like the dearest.
    """
    left = int(tokens * _LEFT_SHARE)
    usage = Usage(tokens - left, left)
    known = cost_of(model, usage, own)
    if known is None and any(driver.reports_cost() for driver in drivers):
        costs = (cost_of(name, usage) for name in PRICES)
        return max(cost for cost in costs if cost is not None)
    return known


def sound(result: WorkerResult, model: str, own: Mapping[str, Price]) -> Usage:
    """What a dispatch used: numbers that are none are unknown, one total of tokens is a use too,
    and a cost that is not told is reckoned where the price is known."""
    told: object = result.usage  # a foreign backend's may be anything
    said = told if isinstance(told, Usage) else Usage()
    usage = Usage(
        counted(said.input_tokens),
        counted(said.output_tokens),
        said.cost_usd if priced(said.cost_usd) is not None else None,
        counted(said.undivided_tokens),
        counted(said.least_tokens) or 0,
        said.least_usd if priced(said.least_usd) is not None else 0.0,
    )
    if usage.total_tokens is None:
        usage = replace(usage, undivided_tokens=counted(result.tokens_spent))
    if usage.cost_usd is None:
        cost = 0.0 if usage.total_tokens == 0 else cost_of(model, usage, own)
        least = max(usage.least_usd, _least_cost(model, usage, own))
        usage = replace(usage, cost_usd=cost, least_usd=least)
    return usage


def _least_cost(model: str, usage: Usage, own: Mapping[str, Price]) -> float:
    """What the tokens that are known cost; those of unknown kind as the cheapest, read from a cache
    where that has a price."""
    entered, left = usage.input_tokens or 0, usage.output_tokens or 0
    rest = Usage(usage.known_tokens - entered - left, 0)
    cheapest = cost_of(model, rest, own, cached_tokens=usage.known_tokens)
    more = cost_of(model, rest, own) if cheapest is None else cheapest
    return (cost_of(model, Usage(entered, left), own) or 0.0) + (more or 0.0)
