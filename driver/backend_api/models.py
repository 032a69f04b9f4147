"""Model names by role and public prices, as of `AS_OF`.

Prices are list prices in USD per 1M tokens, without cache writes, batches or priority. They are
used only if a backend does not report its cost. The price of any other model is unknown, never
zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from driver.backend_api.driver import ROLE_SETUP, ROLE_VERIFY, ROLE_WORKER, Usage
from state_store.values.lazy_dataclass import dataclass
from tools.settings.kinds import TokenPrice

AS_OF = "2026-11-29"
SOURCE = "the providers' public model and pricing pages, in stored copies of that day"
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """USD per 1M tokens. `cached` is None if unknown.

    If a request has more than `long_over` input tokens, its prices are multiplied by the factors.
    """

    input: float
    output: float
    cached: float | None = None
    long_over: int | None = None
    long_input: float = 1.0
    long_output: float = 1.0


def own_prices(given: Mapping[str, TokenPrice]) -> dict[str, Price]:
    """The prices in the user's settings."""
    return {model: Price(one.input, one.output, one.cached) for model, one in given.items()}


def _openai(input_: float, cached: float, output: float) -> Price:
    return Price(input_, output, cached, long_over=272_000, long_input=2.0, long_output=1.5)


CODEX_MODELS: Mapping[str, str] = MappingProxyType(
    {ROLE_WORKER: "gpt-6-luna", ROLE_SETUP: "gpt-6.2-sol", ROLE_VERIFY: "gpt-6.2-sol"}
)

PRICES: Mapping[str, Price] = MappingProxyType(
    {
        "gpt-6.2-astra": _openai(8.0, 0.40, 40.0),
        "gpt-6.2-sol": _openai(2.0, 0.10, 10.0),
        "gpt-6.1-sol": _openai(2.0, 0.10, 10.0),
        "gpt-6-astra": _openai(10.0, 1.0, 50.0),
        "gpt-6-sol": _openai(2.0, 0.20, 10.0),
        "gpt-6-luna": _openai(0.10, 0.01, 0.50),
        "gpt-5.6-terra": _openai(2.0, 0.20, 12.0),
        "gpt-5.6-luna": _openai(0.20, 0.02, 1.20),
        "claude-fable-5-1": Price(10.0, 50.0, 0.25),
        "claude-opus-5-5": Price(4.0, 20.0, 0.20),
        "claude-opus-5": Price(5.0, 25.0, 0.50),
        "claude-sonnet-5-5": Price(2.0, 10.0, 0.20),
        "claude-sonnet-5": Price(2.0, 10.0, 0.20),
        "claude-haiku-5-5": Price(0.10, 0.50, 0.01, 100_000, 5.0, 5.0),
        "claude-haiku-4-5": Price(1.0, 5.0, 0.10),
    }
)

# These models refuse every temperature except their default.
_FIXED_TEMPERATURE = ("gpt-5", "gpt-6", "o1", "o3", "o4")


def takes_temperature(model: str) -> bool:
    """False if the model is known to refuse a temperature."""
    return not model.rpartition("/")[2].startswith(_FIXED_TEMPERATURE)


def cost_of(
    model: str,
    usage: Usage,
    overrides: Mapping[str, Price] = MappingProxyType({}),
    *,
    cached_tokens: int = 0,
    one_request: bool = False,
) -> float | None:
    """The cost of `usage` in USD; None if the model's price or the use is unknown.

    `usage.input_tokens` includes the `cached_tokens`. The price of long requests applies only with
    `one_request`: a sum over many requests is priced as short requests.
    """
    price = overrides.get(model) or PRICES.get(model)
    if price is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    if cached_tokens and price.cached is None:
        return None
    cached = min(cached_tokens, usage.input_tokens)
    entered = (usage.input_tokens - cached) * price.input + cached * (price.cached or 0.0)
    left = usage.output_tokens * price.output
    if one_request and price.long_over is not None and usage.input_tokens > price.long_over:
        entered, left = entered * price.long_input, left * price.long_output
    return (entered + left) / _MILLION
