"""The tries of one dispatch: what each is asked, what they used together, which answer counts."""

from __future__ import annotations

from dataclasses import replace

from driver.agent_driver import Usage, WorkerRequest, WorkerResult
from driver.provider_fault import FaultKind, ProviderFault

# A stalled agent has taken long already: it is started once more and no oftener.
_TRIES_WHEN_SILENT = 2
NOTHING = Usage(0, 0, 0.0)


class Tries:
    """One dispatch under way; used by one thread."""

    def __init__(self, request: WorkerRequest) -> None:
        self.result: WorkerResult | None = None
        self._request = request
        self._begun = 0
        self._silent = 0

    def next_request(self) -> WorkerRequest:
        """The request; every try after the first has a scratch folder of its own in the first's."""
        self._begun += 1
        scratch = self._request.scratch
        if self._begun == 1 or scratch is None:
            return self._request
        return replace(self._request, scratch=scratch / f"try-{self._begun}")

    def add(self, result: WorkerResult) -> None:
        """A try is over; its answer counts from now on, with what all of them used."""
        if self.result is not None:
            result.usage = together(self.result.usage, result.usage)
        self.result = result

    def fault_to_wait_for(self, result: WorkerResult) -> ProviderFault | None:
        """The fault that kept this try from its answer, None when another one is not worth it."""
        fault = result.fault
        if fault is not None and fault.kind is FaultKind.SILENT:
            self._silent += 1
            if self._silent >= _TRIES_WHEN_SILENT:
                return None
        return fault


def together(first: Usage, second: Usage) -> Usage:
    """The sum; a number that is unknown in one of them is unknown in it."""
    if NOTHING in (first, second):  # also where the other only tells one number of tokens
        return second if first == NOTHING else first
    cost = None
    if first.cost_usd is not None and second.cost_usd is not None:
        cost = first.cost_usd + second.cost_usd
    return Usage(
        input_tokens=_sum(first.input_tokens, second.input_tokens),
        output_tokens=_sum(first.output_tokens, second.output_tokens),
        cost_usd=cost,
        undivided_tokens=_sum(first.undivided_tokens, second.undivided_tokens),
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
