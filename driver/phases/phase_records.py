"""What of a phase is written down, and what of its tables goes to its agent."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from driver.agents.dispatch import Call
from driver.backend_api.driver import AgentDriver
from driver.backends.recorded import prompt_sha256
from driver.domain.phase_receipt import Engine, PhaseReceipt
from driver.domain.results import Attempt
from driver.domain.reviews import Review
from driver.pipeline.definition import Phase
from driver.run_state.context import Placed


@dataclass(frozen=True, slots=True)
class Started:
    """A phase that has begun on the tree `input`, with whoever is asked and what."""

    input: str | None = None
    prompt: str | None = None
    driver: AgentDriver | None = None
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    clock: float = field(default_factory=time.monotonic)

    def receipt(
        self,
        phase: Phase,
        role: str,
        status: str,
        *,
        work: Attempt | None = None,
        call: Call | None = None,
        reason: str = "",
    ) -> PhaseReceipt:
        """Of the phase, which is over now; `work` is what it left."""
        done = PhaseReceipt(
            phase=phase.name,
            kind=phase.kind,
            role=role,
            status=status,
            input=self.input,
            output=work.tree if work else self.input,
            prompt_hash=prompt_sha256(self.prompt) if self.prompt is not None else None,
            config_hash=phase.config_hash,
            policy=phase.hermetic,
            started_at=self.at,
            duration_ms=round((time.monotonic() - self.clock) * 1000),
            reason=reason,
        )
        if work is None or call is None or self.driver is None:
            return done
        model = work.model or call.model
        engine = Engine(self.driver.name, model, call.effort)
        return replace(done, engine=engine, usage=work.usage)


def call_of(at: Placed, phase: Phase, word: str, number: int, prompt: str) -> Call:
    """What the phase's agent is to be sent; `word` is that of books and journal."""
    performer, item = at.wave.performer(phase), at.planned.item
    own = None if phase.backend is not None else item.model
    return Call(
        number=number,
        phase=word,
        prompt=prompt,
        performer=performer,
        model=performer.model or own,
        told=phase.name,
        effort=phase.effort or item.effort,
        timeout_s=phase.timeout_s,
        retries=phase.retries,
    )


def reviewed(receipt: PhaseReceipt, found: Review) -> PhaseReceipt:
    """A review's receipt with who was asked, and for how much."""
    return replace(
        receipt,
        output=found.tree,
        engine=Engine(found.backend, found.model),
        usage=found.usage,
        prompt_hash=found.prompt_hash,
    )
