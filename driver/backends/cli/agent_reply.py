"""What one run of an agent's program came to: its reply, judged with how its process ended.

For programs that tell of their run by events. Reading the events is each program's own reader's
work; what the provider's faults are is said by `fault_words`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from driver.backend_api.driver import (
    FAILURE_AGENT,
    FAILURE_COULD_NOT_RUN,
    FAILURE_NONE,
    Usage,
    WorkerRequest,
    WorkerResult,
)
from driver.backend_api.provider_fault import ProviderFault
from driver.backend_api.usage import NOTHING_SPENT
from driver.backends.cli.endings import broken_off, silence_of, tail
from driver.execution.processes import Ending, Finished


@dataclass(frozen=True, slots=True)
class Reply:
    """What the events say of one run. `started` is False when no session began, `finished` when
    they break off before its end, good or bad; `cached_tokens` are a part of the input."""

    started: bool = False
    finished: bool = False
    failure: str = FAILURE_AGENT
    error: str = ""
    text: str = ""
    model: str | None = None
    usage: Usage = field(default_factory=Usage)
    cached_tokens: int = 0
    structured: dict[str, Any] | None = None
    fault: ProviderFault | None = None


def result_of(
    worker_id: str, request: WorkerRequest, finished: Finished, reply: Reply, program: str
) -> WorkerResult:
    """The result of a run of `program`, which is its name in sentences for people."""
    failure, error = broken_off(finished) or _judged(request, finished, reply, program)
    never_ran = finished.ending is Ending.COULD_NOT_START
    return WorkerResult(
        worker_id,
        ok=failure == FAILURE_NONE,
        structured=reply.structured,
        text=reply.text,
        error=error or None,
        usage=NOTHING_SPENT if never_ran else reply.usage,
        model=reply.model or request.model,
        failure=failure,
        fault=silence_of(finished) or (reply.fault if failure == reply.failure else None),
    )


def _judged(
    request: WorkerRequest, finished: Finished, reply: Reply, program: str
) -> tuple[str, str]:
    if not reply.finished:
        failure = FAILURE_COULD_NOT_RUN if reply.fault or not reply.started else FAILURE_AGENT
        said = tail(finished.stderr) or tail(finished.stdout) or "no output"
        return failure, f"{reply.error} (exit {finished.exit_code}): {said}"
    if reply.failure != FAILURE_NONE:
        return reply.failure, f"{program}: {reply.error}"
    if finished.exit_code != 0:
        why = f"{program} exited with {finished.exit_code}: {tail(finished.stderr)}"
        return FAILURE_AGENT, why
    if request.result_schema and reply.structured is None:
        return FAILURE_AGENT, f"{program} gave no structured answer although one was asked for"
    return FAILURE_NONE, ""
