"""The reply of an agent program, and the dispatch result made from it.

A parser for each program turns its output into a `Reply`. `result_of` combines the reply with the
end of the process.
"""

from __future__ import annotations

from typing import Any

from driver.backend_api.driver import (
    FAILURE_AGENT,
    FAILURE_COULD_NOT_RUN,
    FAILURE_NONE,
    Usage,
    WorkerResult,
)
from driver.backend_api.fault_words import MESSAGE_CHARACTERS
from driver.backend_api.provider_fault import FaultKind, ProviderFault
from driver.backend_api.usage import NOTHING_SPENT, total_of, with_least
from driver.backends.cli.endings import broken_off, tail
from driver.execution.processes import Ending, Finished
from state_store.values.lazy_dataclass import dataclass, field


@dataclass(frozen=True, slots=True)
class Reply:
    """The parsed output of a run.

    `started` is False if no session began, `finished` is False if the output breaks off. `error` is
    the reason for a missing answer, or "". `status` is the HTTP status of the error, `fault` the
    provider's fault. `cached_tokens` are a part of the input. `worked` is False without any sign
    that a model has answered. `limit` is the setting whose limit ended the session.
    """

    started: bool = True
    finished: bool = True
    error: str = ""
    status: int | None = None
    fault: ProviderFault | None = None
    text: str = ""
    model: str | None = None
    usage: Usage = field(default_factory=Usage)
    cached_tokens: int = 0
    structured: dict[str, Any] | None = None
    worked: bool = True
    limit: str = ""

    @property
    def failure(self) -> str:
        """The failure that the output reports, for any exit code."""
        if self.fault or not self.started:
            return FAILURE_COULD_NOT_RUN
        return FAILURE_AGENT if self.error or not self.finished else FAILURE_NONE


class UsageSum:
    """Adds up the answers of one run. An answer of unknown use makes the sum unknown, with a lower
    bound."""

    def __init__(self) -> None:
        self._uses: list[Usage] = []

    def add(
        self,
        taken: int | None,
        given: int | None,
        cost: float | None = None,
        total: int | None = None,
    ) -> None:
        """Count one answer: tokens in and out, USD, and a total that is not divided."""
        # The programs print zeros if a server reports no use. No model is free, so a cost of zero
        # means an unknown price.
        self._uses.append(Usage(taken or None, given or None, cost or None, total or None))

    @property
    def answers(self) -> int:
        """The number of answers so far."""
        return len(self._uses)

    @property
    def usage(self) -> Usage:
        """The sum; unknown without answers."""
        return total_of(self._uses) if self._uses else Usage()

    @property
    def least(self) -> Usage:
        """An unknown use whose lower bound is the use of the answers so far."""
        return with_least(Usage(), self._uses)


def result_of(worker_id: str, finished: Finished, reply: Reply, program: str) -> WorkerResult:
    """The result of a run. Messages call the program `program`."""
    failure, error = broken_off(finished) or _judged(finished, reply, program)
    never_ran = finished.ending is Ending.COULD_NOT_START
    fault, limit = (reply.fault, reply.limit) if finished.ending is Ending.EXITED else (None, "")
    if finished.ending is Ending.SILENT:  # perhaps the provider did not answer
        fault, limit = ProviderFault(FaultKind.SILENT, error), "[backend] stall_s"
    ended_itself = finished.ending in (Ending.EXITED, Ending.COULD_NOT_START)
    if failure and ended_itself and fault is None and _did_nothing(reply):
        failure, error = FAILURE_COULD_NOT_RUN, f"it did nothing: {error}"
        # A status says that the server refused the request, perhaps for the prompt of this item.
        kind = FaultKind.BAD_REQUEST if reply.status else FaultKind.DID_NOTHING
        fault = ProviderFault(kind, error[:MESSAGE_CHARACTERS], reply.status)
    return WorkerResult(
        worker_id,
        ok=failure == FAILURE_NONE,
        structured=reply.structured,
        text=reply.text,
        error=error or None,
        usage=NOTHING_SPENT if never_ran else reply.usage,
        model=reply.model,
        failure=failure,
        fault=fault,
        limit=limit,
    )


def _did_nothing(reply: Reply) -> bool:
    """True for a session without tokens, cost and answer, whatever its words are."""
    worked = reply.started and reply.worked
    return not (worked or reply.usage.known_tokens or reply.usage.known_usd)


def _judged(finished: Finished, reply: Reply, program: str) -> tuple[str, str]:
    printed = tail(finished.stderr) or tail(finished.stdout) or "no output"
    if not reply.finished:
        ended = "ended without a final answer" if reply.started else "did not begin"
        why = reply.error or f"{program} {ended}"
        return reply.failure, f"{why} (exit {finished.exit_code}): {printed}"
    if reply.error:
        return reply.failure, f"{program} reports: {tail(reply.error)}"
    if finished.exit_code != 0:
        failure = FAILURE_COULD_NOT_RUN if reply.fault else FAILURE_AGENT
        return failure, f"{program} exited with {finished.exit_code}: {printed}"
    return FAILURE_NONE, ""
