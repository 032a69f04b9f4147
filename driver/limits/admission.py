"""The gates that may stop a wave: the halt switch, the cost ceiling, a signal, the backend itself.

Asked before every dispatch, every repair round and the ship; what money or the backend closes is
closed for dispatches only. The halt switch is watched while others work. A gate that cannot be
asked stops the wave as well, and says so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from driver.backend_api.provider_fault import PARKING, FaultKind, ProviderFault
from driver.execution.cancellation import CancellationToken, InterruptedWaveError
from driver.terminal.safe_text import GO_ON, typed
from state_store.documents.errors import ExitCode, StoppedByPolicyError, TidegateError
from tools import cost_ceiling, halt
from tools.budget import budget
from tools.budget.ceilings import DAILY, TOKENS, Decision, Limits
from tools.settings.load import Settings

HALT = "halt"
CEILING = "ceiling"
UNAVAILABLE = "gate_unavailable"
PARKED = "parked"
REFUSED = "backend_refused"
STOPPED_BY_USER = "stopped_by_user"


class GateClosedError(StoppedByPolicyError):
    """`gate` is one of the words above; `answer` is the ceiling's, if that was asked."""

    def __init__(self, gate: str, reason: str, answer: Mapping[str, Any] | None = None) -> None:
        self.gate = gate
        self.answer = answer
        super().__init__(reason)


class BackendClosedError(GateClosedError):
    """The backend takes no work for now: PARKED until its plan has allowance again or its provider
    answers, or REFUSED until a person puts its key, model or credit right. `resets_at` is in ISO
    8601, None when unknown."""

    def __init__(self, fault: ProviderFault) -> None:
        parked = fault.kind in PARKING
        self.resets_at = _iso(fault.resets_at) if parked else None
        self.exit_code = ExitCode.STOPPED_BY_POLICY if parked else ExitCode.CANNOT_RUN_HERE
        until = f" until {self.resets_at}" if self.resets_at else ""
        why = _CURES[fault.kind]
        super().__init__(PARKED if parked else REFUSED, f"{why}{until}: {fault.message}")


_CURES = {
    FaultKind.USAGE_LIMIT: "the backend's plan is used up",
    FaultKind.GIVEN_UP: "the backend's provider is away; run again later",
    FaultKind.BAD_KEY: "the backend's key or login is not accepted; log in or correct the key",
    FaultKind.UNKNOWN_MODEL: "the backend's server does not know the model; set [backend] model",
    FaultKind.NO_CREDIT: "the backend's account has no credit left; add some",
}


def _iso(at: float | None) -> str | None:
    if at is None:
        return None
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):  # a time beyond the calendar
        return None


@dataclass
class Admission:
    """Without a state folder only signals are asked: there is nowhere to keep a switch. `config`
    has the ceilings as `cost_ceiling.load_config` gives them; None is the current folder's."""

    state_dir: Path | None
    stop: CancellationToken
    tokens_spent: Callable[[], int | None]
    config: Mapping[str, Any]
    tokens_of_day: Callable[[], int | None] = lambda: None
    closed: GateClosedError | None = None
    fault: ProviderFault | None = None
    halt_grace_s: float = 5.0

    def check(self) -> None:
        """Raise InterruptedWaveError or GateClosedError when no further step may start; a halt ends
        what runs as well."""
        self.stop.check()
        if self.state_dir is None:
            return
        try:
            self._asked(check_halt, self.state_dir)
        except GateClosedError as halted:
            self.stop.close(halted, self.halt_grace_s)
            raise

    def watch(self) -> None:
        """Look whether the halt switch was set meanwhile; whoever works is ended then, and later
        what was let go on."""
        self.stop.remind()
        if not self.stop.is_set:
            with suppress(StoppedByPolicyError):
                self.check()

    def check_dispatch(self) -> None:
        """The same before an agent is started; money and the backend have their say here."""
        self.check_money()
        self.check_backend()

    def check_money(self) -> None:
        """The same before anything is spent, with whichever backend."""
        self.check()
        if self.state_dir is not None:
            self._asked(self._check_ceiling, self.state_dir)

    def check_backend(self) -> None:
        """Raise BackendClosedError when the backend takes no work."""
        if self.fault is not None:
            raise BackendClosedError(self.fault)

    def over_budget(self, decision: Decision) -> GateClosedError:
        """The gate that a ceiling closes before a dispatch that does not fit below it."""
        return self._close(GateClosedError(CEILING, decision.reason, _answer_of(decision)))

    def unavailable(self, error: TidegateError) -> GateClosedError:
        """The gate that is closed because nobody can tell what was spent."""
        return self._close(GateClosedError(UNAVAILABLE, f"the cost gate cannot be asked: {error}"))

    def _close(self, closed: GateClosedError) -> GateClosedError:
        self.closed = self.closed or closed
        return closed

    def ceiling_at_the_end(self) -> dict[str, Any] | None:
        """How the wave stands with its ceiling. One that was reached with work left sets the halt
        switch, so that somebody looks; what was built is shipped by then."""
        if self.state_dir is None:
            return None
        left = self.closed is not None and self.closed.gate == CEILING
        answer = self._wave_answer(self.state_dir, trip=left)
        if left and self.closed and self.closed.answer and not answer["exceeded"]:
            return dict(self.closed.answer)
        return answer

    def met(self, fault: ProviderFault | None) -> None:
        """A dispatch ended so; a fault that every other would meet ends the starting of others."""
        if fault is not None and fault.lasting and self.fault is None:
            self.fault = fault
            self.closed = self.closed or BackendClosedError(fault)

    @property
    def parked_until(self) -> str | None:
        """When the backend's plan has allowance again, in ISO 8601; None when it has or unknown."""
        return BackendClosedError(self.fault).resets_at if self.fault else None

    def _asked(self, gate: Callable[[Path], None], state_dir: Path) -> None:
        try:
            gate(state_dir)
        except GateClosedError as closed:
            self._close(closed)
            raise

    def _check_ceiling(self, state_dir: Path) -> None:
        raise_if_exceeded(self._wave_answer(state_dir, trip=False))
        if not _has_daily(self.config):
            return
        raise_if_exceeded(
            cost_ceiling.check(
                spent=self.tokens_of_day(),
                period="daily",
                config=self.config,
                state_dir=state_dir,
                trip=False,
            )
        )

    def _wave_answer(self, state_dir: Path, *, trip: bool) -> dict[str, Any]:
        spent = self.tokens_spent() or 0
        return cost_ceiling.check(spent=spent, trip=trip, state_dir=state_dir, config=self.config)


def check_before_start(state_dir: Path, settings: Settings) -> None:
    """Raise GateClosedError when a run may not begin: halted, or a ceiling is reached already.
    Nothing is changed."""
    check_halt(state_dir)
    try:
        _check_ceilings(state_dir, settings)
    except GateClosedError as closed:
        if closed.gate != CEILING:
            raise
        told = f"{closed}{way_on(closed.answer, state_dir)}"
        raise GateClosedError(CEILING, told, closed.answer) from closed
    check_halt(state_dir)


def _check_ceilings(state_dir: Path, settings: Settings) -> None:
    config = cost_ceiling.load_config(settings)
    raise_if_exceeded(cost_ceiling.check(config=config, state_dir=state_dir, trip=False))
    if _has_daily(config):
        raise_if_exceeded(
            cost_ceiling.check(period="daily", config=config, state_dir=state_dir, trip=False)
        )
    if reached := budget.reached_today(state_dir, Limits.of(settings.limits)):
        raise GateClosedError(CEILING, reached.reason, _answer_of(reached))


def _answer_of(decision: Decision) -> dict[str, Any]:
    """A decision in the words of `cost_ceiling.check`."""
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
    """What follows the reason of a closed ceiling: how to go on; "" where the reason says it."""
    if not answer or answer.get("ceiling") is None:
        return ""
    if answer.get("tripped") and state_dir is not None:
        return f", and the halt switch is set{GO_ON}{halt_command(state_dir, '--clear')}"
    period = answer["period"]
    raised = f"raise [limits] max_{period}_{(answer.get('unit') or TOKENS).lower()}"
    if period == DAILY:
        return f"{GO_ON}run again on the next UTC day, or {raised}"
    return f"{GO_ON}run again as a new wave, or {raised}" if answer.get("spent") else GO_ON + raised


def _has_daily(config: Mapping[str, Any]) -> bool:
    """Whether a day is limited; if not, store and ledger need not be read to know."""
    return (config.get("limits") or {}).get(cost_ceiling.PERIODS["daily"]) is not None


def check_halt(state_dir: Path) -> None:
    """Raise GateClosedError when the halt switch is set, or cannot be read."""
    if halt.is_halted(state_dir):
        raise GateClosedError(HALT, halt_reason(state_dir))


def halt_reason(state_dir: Path) -> str:
    """Why the switch is set, and how to clear it."""
    info = halt.get_halt_info(state_dir) or {}
    go_on = halt_command(state_dir, "--clear")
    reason = str(info.get("reason") or "no reason given")
    for said_already in ("halted, ", "halted "):
        reason = reason.removeprefix(said_already)
    return f"halted: {reason}{GO_ON}{go_on}"


def halt_command(state_dir: Path, *words: str) -> str:
    """What to type, wherever one is, to set or clear the switch of this state folder."""
    python = Path(sys.executable or "python").name
    folder = os.path.realpath(state_dir)  # which, unlike `resolve`, takes links in a circle
    return typed(python, Path(halt.__file__).resolve(), "--state-dir", folder, *words)


def raise_if_exceeded(answer: dict[str, Any]) -> None:
    """Raise GateClosedError when a `cost_ceiling.check` answer says stop."""
    if answer.get("error"):
        why = f"the cost gate cannot be asked: {answer['error']}"
        raise GateClosedError(UNAVAILABLE, why, answer)
    if answer["exceeded"]:
        raise GateClosedError(CEILING, str(answer.get("reason") or "cost ceiling reached"), answer)


def gate_word(stopped: StoppedByPolicyError) -> str:
    """The report's word for what stopped a wave."""
    if not isinstance(stopped, GateClosedError):
        return "interrupted" if isinstance(stopped, InterruptedWaveError) else "lease_lost"
    words = {CEILING: "cost_ceiling_exceeded", HALT: "halted"}
    return words.get(stopped.gate, stopped.gate)
