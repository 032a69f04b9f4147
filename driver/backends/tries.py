"""The tries of one dispatch: what each is asked, what they used together, which answer counts."""

from __future__ import annotations

from dataclasses import replace

from driver.agent_driver import WorkerRequest, WorkerResult
from driver.backends.usage import added
from driver.provider_fault import FaultKind, ProviderFault

# A stalled agent has taken long already: it is started once more and no oftener.
_TRIES_WHEN_SILENT = 2


class Tries:
    """One dispatch under way; used by one thread."""

    def __init__(self, request: WorkerRequest) -> None:
        self.result: WorkerResult | None = None
        self._request = request
        self._begun = 0
        self._silent = 0

    @property
    def timeout_s(self) -> float | None:
        """The time limit that the dispatch brings with it."""
        return self._request.timeout_s

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
            result.usage = added(self.result.usage, result.usage)
        self.result = result

    def fault_to_wait_for(self, result: WorkerResult) -> ProviderFault | None:
        """The fault that kept this try from its answer, None when another one is not worth it."""
        fault = result.fault
        if fault is not None and fault.kind is FaultKind.SILENT:
            self._silent += 1
            if self._silent >= _TRIES_WHEN_SILENT:
                return None
        return fault
