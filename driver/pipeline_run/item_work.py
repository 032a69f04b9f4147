"""The state of an item's pipeline run, and how its work is made, proven and repaired.

`engine` decides which step does what; `step_log` writes the steps down.
"""

from __future__ import annotations

from driver.agents.agent_request import build_request
from driver.agents.attempt import attempt, is_unproven, may_repair
from driver.agents.neighbours import observed
from driver.domain.phase_receipt import (
    COMPLETED,
    REPAIRER,
    STALLED,
    TESTER,
    PhaseReceipt,
)
from driver.domain.phase_receipt import (
    REPAIR as TO_BE_MENDED,
)
from driver.domain.results import BUILD, REPAIR, Attempt, Verdict
from driver.domain.reviews import Review, ReviewWord
from driver.pipeline import position
from driver.pipeline.definition import Phase
from driver.pipeline_run.phase_prompt import repair_prompt_for
from driver.pipeline_run.step_log import Started, StepLog
from driver.policy.judgement import Judgement
from driver.run_state.context import ItemRun
from driver.verification.gate import Examination
from state_store.values.lazy_dataclass import dataclass, field, replace


@dataclass
class PipelineRun:
    """An item's run through its pipeline. `open` work is not proven as it is; `gates` are those it
    has passed, `skipped_gates` those that the user skipped; `number` counts the dispatches at its
    work, `proofs` the examinations of the last; `again` of them are given once more."""

    item: ItemRun
    number: int
    again: int = 0
    gates: list[Phase] = field(default_factory=list)
    skipped_gates: list[Phase] = field(default_factory=list)
    proofs: int = 0
    open: bool = field(init=False)
    publish: bool = True
    approved_tree: str | None = None
    after_approval: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.log = StepLog(self.item)
        self.open = not self.item.attempts or is_unproven(self.last)
        self.pipeline = self.item.pipeline
        self.wave, self.slug = self.item.wave, self.item.slug
        self.cap = self.item.planned.policy.repair_cap + self.again
        self.publish = self.pipeline.publishes

    @property
    def last(self) -> Attempt:
        """The work as it is."""
        return self.item.attempts[-1]

    def mended(self) -> Judgement | None:
        """Repair work that is refused before any test; its judgement once no repair is left."""
        while not self.open and may_repair(self.last, self.cap):
            self.repair()
        return None if self.open else Judgement(self.last.verdict, self.last.reason)

    def repair(self) -> None:
        """Ask the first agent again, with what is wrong in its prompt."""
        prompt = repair_prompt_for(self.item, self.last)
        self.work(self.pipeline.first_agent, REPAIR, prompt, REPAIRER)

    def work(self, phase: Phase, shown: str, prompt: str, role: str) -> None:
        """Ask an agent to do or repair the work, which makes a new attempt."""
        item, before = self.item, self.tree()
        if self.item.attempts:
            item.workspace.forget_commits()
        self.wave.baselines.begin(item)
        self.wave.ahead.retract(item)
        self.number += 1
        self.proofs = 0
        word = BUILD if self.number == 1 else REPAIR
        shown = shown if self.item.shows_phases else word
        request = replace(build_request(item, phase, word, self.number, prompt), shown=shown)
        started = Started(before, prompt, request.backend.driver)
        done = attempt(item, request)
        self.item.attempts.append(done)
        self.open = is_unproven(done)
        mend = may_repair(done, self.cap)
        status = COMPLETED if self.open else (TO_BE_MENDED if mend else STALLED)
        reason = "" if self.open else done.reason
        receipt = started.receipt(phase, role, status, work=done, request=request, reason=reason)
        if self.open:
            self.wave.ahead.offer(item)
            self.record(receipt, done)
        else:
            self.log.judged(receipt, done, mend=mend)

    def green(self) -> Judgement | None:
        """None once the work as it is has been proven; repaired meanwhile, as long as nobody has
        approved it."""
        while True:
            if self.open:
                self.examine()
            if self.last.verdict is Verdict.VERIFIED:
                return None
            if self.once_approved() is not None or not may_repair(self.last, self.cap):
                return Judgement(self.last.verdict, self.last.reason)
            self.repair()

    def examine(self) -> None:
        """Have the work proven by the item's test and all gates it has passed."""
        phase = self.gates[-1] if self.gates else self.pipeline.bare_proof
        self.proofs += 1
        label = f"{self.last.number}" + (f"-{self.proofs}" if self.proofs > 1 else "")
        commands = [command for gate in self.gates for command in gate.commands]
        self.wave.baselines.begin(self.item)
        started, look = Started(self.tree()), Examination(self.item, self.last, commands, label)
        done = look.result()
        self.item.attempts[-1], self.open = done, False
        green = done.verdict is Verdict.VERIFIED
        mend = may_repair(done, self.cap) and self.once_approved() is None
        status = COMPLETED if green else (TO_BE_MENDED if mend else STALLED)
        receipt = started.receipt(phase, TESTER, status, work=done, reason=done.reason)
        self.log.judged(replace(receipt, commands=look.receipts()), done, mend=mend)

    def once_approved(self) -> Review | None:
        """The last review that decided something, where it approved."""
        decided = [one for one in self.item.reviews if one.word != ReviewWord.UNDECIDED]
        approved = decided and decided[-1].word == ReviewWord.APPROVED
        return decided[-1] if approved else None

    def changed_since(self) -> tuple[str, ...]:
        """The paths that changed in the workspace since its files were last collected."""
        known = self.last.changes if self.item.attempts else ()
        return position.changed_between(known, observed(self.item).changes)

    def unclean(self, phase: Phase) -> Judgement | None:
        """The judgement that ends the item if files changed and the phase asks for a clean tree."""
        paths = self.changed_since() if phase.requires_clean_tree else ()
        if not paths:
            return None
        changed = ", ".join(paths[:20])
        why = f"phase {phase.name} wants a clean tree, and these changed: {changed}"
        self.record(Started().receipt(phase, TESTER, STALLED, reason=why))
        return Judgement(Verdict.REFUSED, why)

    def tree(self) -> str | None:
        """The tree of the work; None where there is none."""
        return self.last.tree if self.item.attempts else None

    def record(
        self, receipt: PhaseReceipt, work: Attempt | None = None, number: int | None = None
    ) -> None:
        """A step is over, with the item's work as it is, or `work`; `number` is its dispatch's."""
        work = work or (self.last if self.item.attempts else None)
        self.log.stepped(receipt, work, number)
