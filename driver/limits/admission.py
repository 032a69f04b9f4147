"""The gates that may stop a wave: the halt switch, a ceiling, a signal, the backend itself.

The gates are checked before every dispatch, every repair round and the ship. A ceiling or a backend
stops only dispatches. The halt switch is also watched while agents work. A gate that cannot be
checked stops the wave too, with a message.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from driver.backend_api.provider_fault import PARKING, FaultKind, ProviderFault
from driver.execution.cancellation import CancellationToken, InterruptedWaveError
from driver.terminal.commands import program_command
from driver.terminal.safe_text import GO_ON, typed
from state_store.database.interface import Store
from state_store.documents.errors import ExitCode, StoppedByPolicyError, TidegateError
from state_store.sql.addresses import HaltRow
from state_store.values.lazy_dataclass import dataclass, field, replace
from tools import halt
from tools.budget import budget
from tools.budget.ceilings import DAILY, TOKENS, WAVE, Decision, Limits
from tools.settings.load import Settings

HALT = "halt"
CEILING = "ceiling"
UNAVAILABLE = "gate_unavailable"
PARKED = "parked"
REFUSED = "backend_refused"
STOPPED_BY_USER = "stopped_by_user"
CheckCeiling = Callable[..., dict[str, Any]]
# The cause may lie in the prompt of one item, but hardly in the prompts of two.
_IDLE_ITEMS = 2
_ROW_LOOK_S = 1.0


class GateClosedError(StoppedByPolicyError):
    """A closed gate. `gate` is one of the words above. `answer` is the decision of the ceiling, if
    a ceiling closed the gate."""

    def __init__(self, gate: str, reason: str, answer: Mapping[str, Any] | None = None) -> None:
        self.gate = gate
        self.answer = answer
        super().__init__(reason)


class BackendClosedError(GateClosedError):
    """The backend takes no work. PARKED: until its plan has allowance again or its provider
    answers. REFUSED: until a person corrects the key, model or credit. `resets_at` is in ISO 8601;
    None if unknown."""

    def __init__(self, fault: ProviderFault) -> None:
        parked = fault.kind in PARKING
        self.resets_at = _iso(fault.resets_at) if parked else None
        self.exit_code = ExitCode.STOPPED_BY_POLICY if parked else ExitCode.CANNOT_RUN_HERE
        until = f" until {self.resets_at}" if self.resets_at else ""
        why = _CURES[fault.kind]
        super().__init__(PARKED if parked else REFUSED, f"{why}{until}: {fault.message}")


_CURES = {
    FaultKind.USAGE_LIMIT: "the backend's plan is used up",
    FaultKind.GIVEN_UP: "the backend's provider does not answer; run again later",
    FaultKind.BAD_KEY: "the backend's key or login is not accepted; log in or correct the key",
    FaultKind.UNKNOWN_MODEL: "the backend's server does not know the model; set [backend] model",
    FaultKind.NO_CREDIT: "the backend's account has no credit left; add some",
    FaultKind.DID_NOTHING: "the backend's agents end at once and do nothing",
}


def _iso(at: float | None) -> str | None:
    if at is None:
        return None
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):  # a time outside the calendar
        return None


@dataclass
class Admission:
    """Admission control before each step of a wave: signals, the halt switch, a backend's faults.

    Without a state folder there is no halt switch, so only signals are checked. `spending` checks
    the ceilings. `closed` is the first gate that closed, a ceiling too.
    """

    state_dir: Path | None
    stop: CancellationToken
    halt_grace_s: float = 5.0
    closed: GateClosedError | None = None
    fault: ProviderFault | None = None
    _idle: set[str] = field(default_factory=set)
    _row: HaltRow | None = None

    def check(self) -> None:
        """Raise InterruptedWaveError or GateClosedError if no step may start. A halt also ends
        running work."""
        self.stop.check()
        if self.state_dir is None:
            return
        info, grace_s = halt.info_here(self.state_dir), self.halt_grace_s
        if info is None and self._row is not None:
            info, grace_s = halt.info_of(self._row), grace_s - self.row_look_s
        if info is not None:
            halted = self._close(GateClosedError(HALT, _halt_reason(self.state_dir, info)))
            self.stop.close(halted, grace_s)
            raise halted

    @property
    def row_look_s(self) -> float:
        """The seconds between two looks at the halt of all machines: a part of the time within
        which a halt has to end all work, and seldom enough for a server of many machines."""
        return min(_ROW_LOOK_S, self.halt_grace_s / 4)

    def look_at(self, store: Store) -> None:
        """Look for a halt of all machines that share the store. A server that is away halts
        nothing: writes wait for it."""
        with suppress(TidegateError):
            self._row = store.halt_row()

    def watch(self) -> None:
        """Check the halt switch while agents work. A halt ends running work, and later also work
        that was allowed to finish."""
        self.stop.check_deadlines()
        if not self.stop.is_set:
            with suppress(StoppedByPolicyError):
                self.check()

    def check_backend(self) -> None:
        """Raise BackendClosedError if the backend takes no work."""
        if self.fault is not None:
            raise BackendClosedError(self.fault)

    def over_budget(self, decision: Decision) -> GateClosedError:
        """Close the gate because of a ceiling; returns the error to raise."""
        return self._close(GateClosedError(CEILING, decision.reason, _answer_of(decision)))

    def reached(self, answer: Mapping[str, Any]) -> GateClosedError:
        """Close the gate because `cost_ceiling.check` answers so; returns the error to raise."""
        reason = str(answer.get("reason") or "the cost ceiling is reached")
        return self._close(GateClosedError(CEILING, reason, {"period": WAVE, **answer}))

    def unavailable(self, error: TidegateError) -> GateClosedError:
        """Close the gate because spending cannot be determined; returns the error to raise."""
        return self._close(_cannot_be_asked(error))

    def _close(self, closed: GateClosedError) -> GateClosedError:
        self.closed = self.closed or closed
        return closed

    def met(self, fault: ProviderFault | None) -> None:
        """Record the end of a dispatch. A fault that every other dispatch would meet stops all
        later dispatches."""
        if fault is not None and fault.lasting:
            self._close_backend(fault)

    def did_nothing(self, item: str, fault: ProviderFault) -> None:
        """Record an agent that ended without a sign of work. If that happens to two items and no
        agent works in between, it is the backend's fault, and all later dispatches are stopped."""
        self._idle.add(item)
        if len(self._idle) >= _IDLE_ITEMS:
            self._close_backend(replace(fault, kind=FaultKind.DID_NOTHING))

    def worked(self) -> None:
        """Record an agent that worked, with any result."""
        self._idle.clear()

    def _close_backend(self, fault: ProviderFault) -> None:
        if self.fault is None:
            self.fault = fault
            self._close(BackendClosedError(fault))

    @property
    def parked_until(self) -> str | None:
        """The time at which the backend's plan has allowance again, in ISO 8601; None if unknown or
        not parked."""
        return BackendClosedError(self.fault).resets_at if self.fault else None


def check_before_start(state_dir: Path, settings: Settings) -> None:
    """Raise GateClosedError if the halt switch is set or a ceiling is reached. Changes nothing."""
    check_halt(state_dir)
    try:
        reached = budget.reached_before(state_dir, Limits.of(settings.limits))
    except TidegateError as error:
        raise _cannot_be_asked(error) from error
    if reached:
        answer = _answer_of(reached)
        raise GateClosedError(CEILING, f"{reached.reason}{way_on(answer, state_dir)}", answer)
    check_halt(state_dir)


def _cannot_be_asked(error: TidegateError) -> GateClosedError:
    return GateClosedError(UNAVAILABLE, f"the cost gate cannot be checked: {error}")


def _answer_of(decision: Decision) -> dict[str, Any]:
    """The decision in the form of `cost_ceiling.check`, with its unit."""
    return {
        "period": decision.period,
        "unit": decision.unit,
        "ceiling": decision.ceiling,
        "spent": decision.spent,
        "exceeded": True,
        "tripped": False,
        "reason": decision.reason,
    }


def way_on(answer: Mapping[str, Any] | None, state_dir: Path | None) -> str:
    """The remedy for a reached ceiling, to follow the reason; "" if the reason contains it."""
    if not answer or answer.get("ceiling") is None:
        return ""
    if answer.get("tripped") and state_dir is not None:
        return f", and the halt switch is set{GO_ON}{halt_command(state_dir, '--clear')}"
    period = answer["period"]
    raised = f"raise [limits] max_{period}_{(answer.get('unit') or TOKENS).lower()}"
    if period == DAILY:
        return f"{GO_ON}run again on the next UTC day, or {raised}"
    return f"{GO_ON}run again as a new wave, or {raised}" if answer.get("spent") else GO_ON + raised


def check_halt(state_dir: Path) -> None:
    """Raise GateClosedError if the halt switch is set or cannot be read."""
    if halt.is_halted(state_dir):
        raise GateClosedError(HALT, halt_reason(state_dir))


def halt_reason(state_dir: Path) -> str:
    """The reason of the halt, and the command that clears it."""
    return _halt_reason(state_dir, halt.get_halt_info(state_dir) or {})


def _halt_reason(state_dir: Path, info: Mapping[str, Any]) -> str:
    go_on = halt_command(state_dir, "--clear")
    reason = halt.describe(info)
    for prefix in ("halted, ", "halted "):
        reason = reason.removeprefix(prefix)
    return f"halted: {reason}{GO_ON}{go_on}"


def halt_command(state_dir: Path, *words: str) -> str:
    """The command that sets or clears the halt switch of this state folder, from any folder."""
    folder = os.path.realpath(state_dir)  # unlike `resolve`, this accepts a loop of links
    program = program_command("halt", Path(halt.__file__).resolve())
    return f"{program} {typed('--state-dir', folder, *words)}"


def gate_word(stopped: StoppedByPolicyError) -> str:
    """The report's `abort_reason` for a stopped wave."""
    if not isinstance(stopped, GateClosedError):
        return "interrupted" if isinstance(stopped, InterruptedWaveError) else "lease_lost"
    words = {CEILING: "cost_ceiling_exceeded", HALT: "halted"}
    return words.get(stopped.gate, stopped.gate)
