"""Translates the end of a process into the terms of the backend contract.

Names the endings that the engine or the system caused. The adapters parse the output.
"""

from __future__ import annotations

from collections.abc import Iterator

from driver.backend_api.driver import (
    FAILURE_AGENT,
    FAILURE_CANCELLED,
    FAILURE_COULD_NOT_RUN,
    FAILURE_TIMED_OUT,
    CommandResult,
    WorkerResult,
)
from driver.backend_api.provider_fault import ProviderFault
from driver.backend_api.usage import NOTHING_SPENT
from driver.backends.cli.json_output import text_lines
from driver.execution.processes import Ending, Finished, could_not_run_reason

TAIL_CHARACTERS = 2000
MAX_LINE = 16 * 1024 * 1024

# The exit codes that a shell uses for these endings, which have none in Finished.
_EXIT_CODES = {
    Ending.TIMED_OUT: 124,
    Ending.SILENT: 124,
    Ending.COULD_NOT_START: 127,
    Ending.CANCELLED: 130,
}


def left_running(finished: Finished) -> tuple[str, ...]:
    """The processes that a command left running when it ended by itself. An ended command had no
    time to clean up."""
    return finished.survivors_named if finished.ending is Ending.EXITED else ()


def command_result(finished: Finished) -> CommandResult:
    """The end of a process as a CommandResult."""
    code = finished.exit_code
    return CommandResult(
        exit_code=_EXIT_CODES.get(finished.ending, 1) if code is None else code,
        stdout=finished.stdout,
        stderr=finished.stderr,
        timed_out=finished.ending is Ending.TIMED_OUT,
        cancelled=finished.ending is Ending.CANCELLED,
        could_not_run=could_not_run_reason(finished),
        duration_s=finished.duration_s,
        output_file=None if finished.stdout_file is None else str(finished.stdout_file),
        survivors=left_running(finished),
        over_limit=finished.reason if finished.ending is Ending.OVER_LIMIT else "",
        limit_hint=finished.hint,
    )


def broken_off(finished: Finished) -> tuple[str, str] | None:
    """(failure, error) of an agent that did not end by itself, else None."""
    if finished.ending is Ending.EXITED:
        return None
    if finished.ending is Ending.OVER_LIMIT:
        return FAILURE_AGENT, finished.reason
    if finished.ending is Ending.TIMED_OUT:
        return FAILURE_TIMED_OUT, f"the agent was ended after {finished.duration_s:.0f} s"
    if finished.ending is Ending.CANCELLED:
        return FAILURE_CANCELLED, "the agent was cancelled"
    if finished.ending is Ending.SILENT:
        return FAILURE_COULD_NOT_RUN, f"the agent was stalled: {finished.reason}"
    reason = could_not_run_reason(finished) or finished.reason
    return FAILURE_COULD_NOT_RUN, f"the agent could not be run: {reason}"


def printed_lines(finished: Finished) -> Iterator[str]:
    """All lines of standard output, even if they are not in memory."""
    return text_lines(finished.stdout_file, MAX_LINE, finished.stdout)


def not_run(
    worker_id: str, failure: str, error: str, fault: ProviderFault | None = None
) -> WorkerResult:
    """The result of a dispatch that did not start and cost nothing."""
    return WorkerResult(worker_id, error=error, usage=NOTHING_SPENT, failure=failure, fault=fault)


def tail(text: str, limit: int = TAIL_CHARACTERS) -> str:
    """The end of a text, from the start of a line if possible."""
    text = text.strip()
    if len(text) <= limit:
        return text
    cut = text[-limit:]
    return "... " + cut[cut.find("\n") + 1 :].lstrip()
