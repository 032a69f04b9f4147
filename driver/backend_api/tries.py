"""The tries of a dispatch: their requests, their total use and the final answer."""

from __future__ import annotations

import threading
from dataclasses import replace

from driver.backend_api.driver import Usage, WorkerRequest, WorkerResult
from driver.backend_api.provider_fault import FaultKind, ProviderFault
from driver.backend_api.usage import NOTHING_SPENT, total_of

# A stalled agent has already taken long, and a paid try money, so it is started only once more.
_TRIES_WHEN_SILENT = 2
_PAID_TRIES = 2


class Tries:
    """The tries of one running dispatch. Not thread safe."""

    def __init__(self, request: WorkerRequest) -> None:
        self.result: WorkerResult | None = None
        self._request = request
        self._begun = 0
        self._silent = 0
        self._paid = 0

    @property
    def timeout_s(self) -> float | None:
        """The time limit of the dispatch."""
        return self._request.timeout_s

    def next_request(self) -> WorkerRequest:
        """The request of the next try. Every try after the first has its own folder in
        `scratch`."""
        self._begun += 1
        scratch = self._request.scratch
        if self._begun == 1 or scratch is None:
            return self._request
        return replace(self._request, scratch=scratch / f"try-{self._begun}")

    def add(self, result: WorkerResult) -> None:
        """End a try. Its answer replaces the last answer; the use of all tries is added up."""
        self._paid += result.usage.known_tokens > 0 or result.usage.known_usd > 0
        if self.result is not None:
            result.usage = total_of((self.result.usage, result.usage))
        self.result = result

    def fault_to_wait_for(self, result: WorkerResult) -> ProviderFault | None:
        """The fault of this try; None if no other try should follow."""
        fault = result.fault
        if fault is not None and fault.kind is FaultKind.SILENT:
            self._silent += 1
            if self._silent >= _TRIES_WHEN_SILENT:
                return None
        return fault

    def may_repeat(self) -> bool:
        """True if another try may follow the last one. Its use is booked by the caller of the
        dispatch, who may refuse."""
        last, book = self.result, self._request.between_tries
        if last is None or self._paid >= _PAID_TRIES:
            return False
        if book is None or last.usage == NOTHING_SPENT:
            return True
        refusal = book(last.usage)
        last.usage = NOTHING_SPENT
        if refusal:
            last.error = f"{last.error}; not tried again: {refusal}"
        return not refusal


class TokenMeter:
    """Adds up the use of dispatches. Thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: int | None = None
        self._unmetered = 0

    def add(self, usage: Usage) -> None:
        """Count one dispatch. Unknown use counts as unmetered, never as zero tokens."""
        with self._lock:
            if usage.total_tokens is None:
                self._unmetered += 1
            else:
                self._known = (self._known or 0) + usage.total_tokens

    @property
    def known(self) -> int | None:
        """Tokens of the metered dispatches; None if there was none."""
        with self._lock:
            return self._known

    @property
    def unmetered(self) -> int:
        """The number of dispatches with unknown use."""
        with self._lock:
            return self._unmetered
