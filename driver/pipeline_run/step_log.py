"""The receipts of an item's steps, and how they are written down for the run that resumes it."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from driver.agents.agent_request import AgentRequest
from driver.agents.attempt import save
from driver.backend_api.driver import AgentDriver
from driver.backends.recorded import prompt_sha256
from driver.domain.phase_receipt import COMPLETED, Engine, PhaseReceipt
from driver.domain.results import Attempt, ItemOutcome, Verdict
from driver.domain.reviews import Review
from driver.pipeline.definition import Phase
from driver.policy.judgement import Judgement
from driver.run_state import steps
from driver.run_state.context import ItemRun
from driver.run_state.steps import Step
from driver.workspace.saved_patch import step_patch
from state_store.values.lazy_dataclass import dataclass, field, replace


class StepLog:
    """Writes down an item's steps, each with a receipt, an event and the patch of the tree that it
    left. All methods raise LeasedElsewhereError, and then the step counts for nothing."""

    def __init__(self, item: ItemRun) -> None:
        self._item = item
        # Several steps leave the same tree, and its patch is written once.
        self._saved: set[str] = set()

    def stepped(self, receipt: PhaseReceipt, work: Attempt | None, number: int | None) -> None:
        """A step is over that gives no verdict on the work; `number` is that of its dispatch."""
        shown = f"phase {receipt.phase}: {receipt.status}" if self._item.shows_phases else ""
        self._record(receipt, steps.phase_finished(receipt, work, number, shown))

    def judged(self, receipt: PhaseReceipt, work: Attempt, *, mend: bool) -> None:
        """The work has its verdict; `mend` if a repair follows. What no test could decide waits for
        the next run, if an agent has come to its end."""
        done = any(one.status == COMPLETED for one in (*self._item.phases, receipt))
        waits = work.verdict is Verdict.UNDECIDED and done
        over = work.verdict is not Verdict.VERIFIED and not waits
        self._record(receipt, steps.judged(work, receipt, final=over and not mend))

    def read(
        self, receipt: PhaseReceipt, found: Review, outcome: ItemOutcome, end: Judgement | None
    ) -> None:
        """A review is over, and with it the item stands as `outcome`; `end` is None if its findings
        are to be repaired."""
        final = end is not None and end.verdict is Verdict.FAILED
        outcome = replace(outcome, phases=(*outcome.phases, receipt))
        self._record(receipt, steps.reviewed(found, receipt, outcome, final=final))

    def _record(self, receipt: PhaseReceipt, step: Step) -> None:
        item = self._item
        if receipt.output is not None and receipt.output not in self._saved:
            save(item, receipt.output, step_patch(receipt.output))
            self._saved.add(receipt.output)
        item.phases.append(receipt)
        item.wave.recorder.record(item.key, step)
        item.wave.handover.offer(item, receipt.output)


@dataclass(frozen=True, slots=True)
class Started:
    """A phase that has begun on the tree `input`, with the prompt and the backend of its agent."""

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
        """The receipt of the phase, which is over now; `work` is what it left."""
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
    """A review's receipt with the reviewer's backend, and its use."""
    return replace(
        receipt,
        output=found.tree,
        engine=Engine(found.backend, found.model),
        usage=found.usage,
        prompt_hash=found.prompt_hash,
    )
