"""How an item's way through its steps is written down: step by step, or by attempts and reviews.

The pipeline run is the same; only what a later run can go on from differs. Steps one by one
cost an entry and a patch each, so they are for pipelines of the user's own, and for a person who is
asked about each.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from driver.agents.agent_request import AgentRequest
from driver.agents.attempt import save
from driver.backend_api.driver import AgentDriver
from driver.backends.recorded import prompt_sha256
from driver.domain.phase_receipt import Engine, PhaseReceipt
from driver.domain.results import Attempt, ItemOutcome, Verdict
from driver.domain.reviews import Review
from driver.pipeline.definition import Phase
from driver.policy.judgement import Judgement
from driver.run_state.context import ItemRun
from driver.workspace.saved_patch import REVIEWED, step_patch


class StepLog(Protocol):
    """Where an item's steps go. All raise LeasedElsewhereError, and then the step counts for
    nothing."""

    def stepped(self, receipt: PhaseReceipt, work: Attempt | None, number: int | None) -> None:
        """A step is over that gives no verdict on the work; `number` is that of its dispatch."""

    def judged(self, receipt: PhaseReceipt, work: Attempt, *, mend: bool) -> None:
        """The work has its verdict; `mend` when another round follows."""

    def to_address(self, found: Review) -> None:
        """What a reviewer asks for is about to be repaired."""

    def read(
        self, receipt: PhaseReceipt, found: Review, outcome: ItemOutcome, end: Judgement | None
    ) -> None:
        """A review is over, and with it the item stands as `outcome`; `end` None where its findings
        are to be repaired."""


def step_log_of(item: ItemRun) -> StepLog:
    """Those that the item's steps are written down in."""
    return PipelineStepLog(item) if item.is_stepwise else ClassicStepLog(item)


class PipelineStepLog:
    """Each step has a receipt, an event and the patch of the tree that it left."""

    def __init__(self, item: ItemRun) -> None:
        self._item = item
        self._subject, self._recorder = item.key, item.wave.recorder

    def stepped(self, receipt: PhaseReceipt, work: Attempt | None, number: int | None) -> None:
        self._note(receipt)
        self._item.say(f"phase {receipt.phase}: {receipt.status}")
        self._recorder.phased(self._subject, receipt, work, number)

    def judged(self, receipt: PhaseReceipt, work: Attempt, *, mend: bool) -> None:
        self._note(receipt)
        over = work.verdict not in (Verdict.VERIFIED, Verdict.UNDECIDED)
        self._recorder.judged(self._subject, work, final=over and not mend)
        self._recorder.phased(self._subject, receipt, None)

    def to_address(self, found: Review) -> None:
        """The tree that was read is one that a step has left."""

    def read(
        self, receipt: PhaseReceipt, found: Review, outcome: ItemOutcome, end: Judgement | None
    ) -> None:
        self._note(receipt)
        outcome = replace(outcome, phases=tuple(self._item.phases))
        final = end is not None and end.verdict is Verdict.FAILED
        self._recorder.reviewed(self._subject, found, outcome, final)
        self._recorder.phased(self._subject, receipt, None)

    def _note(self, receipt: PhaseReceipt) -> None:
        """Keep the tree that the step left, then have the next entry of the item name it."""
        item = self._item
        if receipt.output is not None:
            save(item, receipt.output, step_patch(receipt.output))
        self._item.phases.append(receipt)
        self._recorder.note_phase(item.slug, receipt)


class ClassicStepLog:
    """Attempts and reviews tell it all: nothing is between them that could be lost."""

    def __init__(self, item: ItemRun) -> None:
        self._item = item
        self._subject, self._recorder = item.key, item.wave.recorder

    def stepped(self, receipt: PhaseReceipt, work: Attempt | None, number: int | None) -> None:
        """What it came to is told with the attempt's verdict."""

    def judged(self, receipt: PhaseReceipt, work: Attempt, *, mend: bool) -> None:
        del receipt
        green = work.verdict is Verdict.VERIFIED
        is_read_next = green and self._item.wants_review
        self._recorder.judged(self._subject, work, final=not (is_read_next or mend))

    def to_address(self, found: Review) -> None:
        save(self._item, found.tree, REVIEWED)

    def read(
        self, receipt: PhaseReceipt, found: Review, outcome: ItemOutcome, end: Judgement | None
    ) -> None:
        del receipt
        final = end is not None and end.verdict is not Verdict.UNDECIDED
        self._recorder.reviewed(self._subject, found, outcome, final)


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
        request: AgentRequest | None = None,
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
        if work is None or request is None or self.driver is None:
            return done
        model = work.model or request.model
        engine = Engine(self.driver.name, model, request.effort)
        return replace(done, engine=engine, usage=work.usage)


def reviewed(receipt: PhaseReceipt, found: Review) -> PhaseReceipt:
    """A review's receipt with who was asked, and for how much."""
    return replace(
        receipt,
        output=found.tree,
        engine=Engine(found.backend, found.model),
        usage=found.usage,
        prompt_hash=found.prompt_hash,
    )
