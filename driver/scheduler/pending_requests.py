"""Makes, in a cycle without a wave, the pull requests that earlier runs could not request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from driver.execution.cancellation import CancellationToken
from driver.pull_requests.body import Proposed
from driver.pull_requests.forge import NONE
from driver.pull_requests.outbox import all_open
from driver.pull_requests.request import propose_left
from driver.run_state.event_log import write_proposed
from driver.scheduler.backlog import ACTOR, Backlog
from driver.scheduler.context import Cycle
from state_store.documents.errors import ExitCode


def requests_left(cycle: Cycle, report: Mapping[str, Any]) -> dict[str, Any]:
    """Request them; returns the keys for the cycle's `report`, {} if none is left.

    Raises GateClosedError if the halt switch is set meanwhile.
    """
    if cycle.settings.ship.pr == NONE or not all_open(cycle.state_dir):
        return {}
    with Backlog.opened(cycle) as backlog:

        def record(wave: str, step: Mapping[str, Any]) -> None:
            write_proposed(backlog.api, wave, step, ACTOR)

        stop = cycle.options.stop if cycle.options else CancellationToken()
        asked = propose_left(cycle.settings, cycle.state_dir, stop, cycle.progress.say, record)
    return keys_about(asked, report)


def keys_about(asked: Sequence[Proposed], report: Mapping[str, Any]) -> dict[str, Any]:
    """The report's keys; a failed request decides the exit code of a cycle that succeeded."""
    keys: dict[str, Any] = {"pull_requests": [one.to_json() for one in asked]}
    if not report["success"] or all(one.made for one in asked):
        return keys
    why = next(one.error for one in asked if not one.made)
    failed = {"success": False, "exit_code": int(ExitCode.NOT_ALL_SHIPPED), "error": why}
    return keys | failed
