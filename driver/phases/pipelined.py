"""One item through the steps of its pipeline, each written down as soon as it is over.

What a step leaves is a tree, its patch and a receipt; a run that is killed goes on behind the last
receipt. Whatever changed the tree, it is proven before anything rests on it: before the next agent
behind a gate, before a review, and at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from driver.gates import STOPPED_BY_USER, GateClosedError
from driver.git import GitError
from driver.ground import RepositoryGround
from driver.outcome import BUILD, REPAIR, Attempt, ItemOutcome, Verdict
from driver.phases.build import is_unproven, may_repair, save, worked
from driver.phases.gate import Examination
from driver.phases.phase_prompt import mending_prompt, phase_prompt, prompt_file
from driver.phases.phase_records import Started, call_of, reviewed
from driver.phases.reading import read_only
from driver.phases.recovery import Start
from driver.phases.review import review
from driver.phases.setting_up import set_up
from driver.pipeline import course
from driver.pipeline.confirm import QUIT, RUN
from driver.pipeline.definition import AGENT, GATE, PUBLISH, REVIEW, SETUP, Phase
from driver.pipeline.phase_receipt import (
    BUILDER,
    COMPLETED,
    MENDER,
    READER,
    SKIPPED,
    STALLED,
    TESTER,
    WORKER,
    PhaseReceipt,
)
from driver.pipeline.phase_receipt import (
    REPAIR as TO_BE_MENDED,
)
from driver.review_verdict import judge
from driver.reviews import Review, ReviewWord, settled_by
from driver.saved_work import of_step
from driver.trail import Trail, outcome_of, settle
from driver.verdicts import Judgement
from driver.wave_context import Placed

NOTHING_DONE = "nothing was done: no step before this one has left any work"


def follow(at: Placed, trail: Trail, start: Start) -> ItemOutcome:
    """The item's outcome. Raises what keeps an item from going on, as an attempt does."""
    line = _Line(at, trail, start.attempts)
    ended = line.walk(start.step)
    outcome = replace(
        outcome_of(at.planned, ended.verdict, ended.reason, trail),
        approved_tree=line.approved_tree,
        after_approval=line.after_approval,
        publish=line.publish,
    )
    last = trail.attempts[-1] if trail.attempts else None
    if last is None or (ended.verdict, ended.reason) != (last.verdict, last.reason):
        return settle(at.planned, at.wave, outcome)
    return outcome


@dataclass
class _Line:
    """An item on its way. `open` work has not been proven as it is; `gates` are those it passed;
    `number` counts the dispatches at its work, `looks` its examinations."""

    at: Placed
    trail: Trail
    number: int
    gates: list[Phase] = field(default_factory=list)
    looks: int = 0
    open: bool = True
    publish: bool = True
    approved_tree: str | None = None
    after_approval: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.pipeline = self.at.planned.pipeline
        self.wave, self.slug = self.at.wave, self.at.planned.slug
        self.cap = self.at.planned.policy.repair_cap
        self.publish = self.pipeline.publishes

    def walk(self, first: int) -> Judgement:
        """The verdict after the last step, or that of the step which ended it."""
        steps = self.pipeline.steps
        self.gates = [phase for phase in steps[:first] if phase.kind == GATE]
        if first and steps[0].kind == SETUP and (ended := set_up(self.at, steps[0])[1]):
            return ended  # the place is a new one
        for phase in steps[first:]:
            self.wave.gates.check()
            if not self._is_wanted(phase):
                continue
            if phase.kind not in (SETUP, AGENT) and not self.trail.attempts:
                return Judgement(Verdict.NO_CHANGE, NOTHING_DONE)
            ended = self._unclean(phase) or _STEPS[phase.kind](self, phase)
            if ended is not None:
                return ended
        if not self.trail.attempts:
            return Judgement(Verdict.NO_CHANGE, NOTHING_DONE)
        return self._green() or self._approved()

    @property
    def last(self) -> Attempt:
        """The work as it is."""
        return self.trail.attempts[-1]

    def _is_wanted(self, phase: Phase) -> bool:
        """Whether a person, where one is asked, lets the step begin. Raises GateClosedError."""
        ask = self.wave.options.ask
        answer = ask(self.slug, phase.name) if ask else RUN
        if answer == QUIT:
            why = GateClosedError(STOPPED_BY_USER, "stopped by user")
            self.wave.gates.stop.close(why, self.wave.gates.halt_grace_s)
            self.wave.gates.check()
        if answer != RUN:
            self._record(phase, Started().receipt(phase, TESTER, SKIPPED, reason="skipped by user"))
            self.publish = self.publish and phase.kind != PUBLISH
        return answer == RUN

    def _unclean(self, phase: Phase) -> Judgement | None:
        """What changed in the item's place since it was last looked at, where that is asked."""
        if not phase.requires_clean_tree:
            return None
        known = self.last.changes if self.trail.attempts else ()
        paths = course.changed_between(known, self.at.place.observe().changes)
        if not paths:
            return None
        why = f"phase {phase.name} wants a clean tree, and these changed: {', '.join(paths[:20])}"
        self._record(phase, Started().receipt(phase, TESTER, STALLED, reason=why))
        return Judgement(Verdict.REFUSED, why)

    def _set_up(self, phase: Phase) -> Judgement | None:
        done, ended = set_up(self.at, phase)
        self._record(phase, done)
        return ended

    def _ask_agent(self, phase: Phase) -> Judgement | None:
        if not self.trail.attempts:
            return (
                self._implement(phase)
                if phase.edits
                else Judgement(Verdict.NO_CHANGE, NOTHING_DONE)
            )
        if self.gates and (ended := self._green()) is not None:
            return ended
        return self._read(phase) if phase.reads_only else self._further(phase)

    def _implement(self, phase: Phase) -> Judgement | None:
        prompt = phase_prompt(self.at.planned, self.at.place, self.wave, phase)
        self._work(phase, phase.name, prompt, BUILDER)
        return self._mended()

    def _mended(self) -> Judgement | None:
        """Repair work that something is to be said against before any test."""
        while not self.open and may_repair(self.last, self.cap):
            self._repair()
        return None if self.open else Judgement(self.last.verdict, self.last.reason)

    def _repair(self) -> None:
        prompt = mending_prompt(self.at.planned, self.at.place, self.wave, self.last)
        self._work(self.pipeline.first_agent, REPAIR, prompt, MENDER)

    def _work(self, phase: Phase, told: str, prompt: str, role: str) -> None:
        """One dispatch at the item's work, which is a new attempt."""
        planned, place, before = self.at.planned, self.at.place, self._tree()
        if self.trail.attempts:
            place.forget_commits()
        self.wave.baselines.begin(planned, self.wave)
        self.number += 1
        word = BUILD if self.number == 1 else REPAIR
        call = replace(call_of(self.at, phase, word, self.number, prompt), told=told)
        started = Started(before, prompt, self.wave.performer(phase).driver)
        done = worked(planned, place, self.wave, call)
        self.trail.attempts.append(done)
        self.open = is_unproven(done)
        final = not may_repair(done, self.cap) and done.verdict is not Verdict.UNDECIDED
        status = COMPLETED if self.open else (STALLED if final else TO_BE_MENDED)
        told_of = "" if self.open else done.reason
        receipt = started.receipt(phase, role, status, work=done, call=call, reason=told_of)
        if self.open:
            self._record(phase, receipt, done)
            return
        self._note(receipt)
        self.wave.recorder.judged(self.wave.subject(planned), done, final=final)
        self.wave.recorder.phased(self.wave.subject(planned), receipt, None)

    def _further(self, phase: Phase) -> Judgement | None:
        """An agent after the first: what it adds belongs to the work, and may be bounded."""
        planned, place, before = self.at.planned, self.at.place, self.last
        place.forget_commits()
        prompt = phase_prompt(planned, place, self.wave, phase, before)
        call = replace(call_of(self.at, phase, phase.name, 1, prompt), attempts=self.number)
        started = Started(before.tree, prompt, self.wave.performer(phase).driver)
        done = worked(planned, place, self.wave, call)
        paths = course.changed_between(before.changes, done.changes)
        ended = None
        if not is_unproven(done):
            ended = Judgement(done.verdict, f"phase {phase.name}: {done.reason}")
        elif problem := course.overstepped(phase, paths):
            ended = Judgement(Verdict.REFUSED, problem)
        else:
            self._take(before, done)
        status, why = (STALLED, ended.reason) if ended else (COMPLETED, "")
        receipt = started.receipt(phase, WORKER, status, work=done, call=call, reason=why)
        if ended:
            save(planned, place, self.wave, before.tree)
            receipt = replace(receipt, output=before.tree)
        self._record(phase, receipt, self.last, number=1)
        return ended

    def _take(self, before: Attempt, done: Attempt) -> None:
        """The item's work is what a further agent has made of it."""
        if done.tree == before.tree:
            return
        self.open = True
        self.trail.attempts[-1] = replace(
            before,
            tree=done.tree,
            changes=done.changes,
            verdict=done.verdict,
            reason=done.reason,
            test=None,
        )

    def _read(self, phase: Phase) -> Judgement | None:
        done, ended = read_only(self.at, phase, self.last, self.number)
        self._record(phase, done, self.last, number=1)
        return ended

    def _gate(self, phase: Phase) -> Judgement | None:
        self.gates.append(phase)
        if phase.commands:
            self.open = True
        if self.open:
            return self._green()
        known = Started(self._tree()).receipt(phase, TESTER, COMPLETED, reason="proven already")
        self._record(phase, known, self.last)
        return None

    def _green(self) -> Judgement | None:
        """None once the work as it is has been proven; repaired meanwhile, as long as nobody has
        approved it."""
        while True:
            if self.open:
                self._examine()
            if self.last.verdict is Verdict.VERIFIED:
                return None
            if self._once_approved() is not None or not may_repair(self.last, self.cap):
                return Judgement(self.last.verdict, self.last.reason)
            self._repair()

    def _examine(self) -> None:
        phase = self.gates[-1] if self.gates else Phase(GATE, GATE)
        self.looks += 1
        label = f"{self.last.number}" + (f"-{self.looks}" if self.looks > 1 else "")
        commands = [command for gate in self.gates for command in gate.commands]
        self.wave.baselines.begin(self.at.planned, self.wave)
        started, look = Started(self._tree()), Examination(self.at, self.last, commands, label)
        done = look.result()
        self.trail.attempts[-1], self.open = done, False
        green = done.verdict is Verdict.VERIFIED
        mend = may_repair(done, self.cap) and self._once_approved() is None
        status = COMPLETED if green else (TO_BE_MENDED if mend else STALLED)
        reason = done.reason
        receipt = started.receipt(phase, TESTER, status, work=done, reason=reason)
        self._note(replace(receipt, commands=look.receipts()))
        final = not (green or mend or done.verdict is Verdict.UNDECIDED)
        subject = self.wave.subject(self.at.planned)
        self.wave.recorder.judged(subject, done, final=final)
        self.wave.recorder.phased(subject, self.trail.phases[-1], None)

    def _review(self, phase: Phase) -> Judgement | None:
        if not self.wave.wants_review(self.at.planned):
            off = Started(self._tree()).receipt(phase, READER, SKIPPED, reason="reviews are off")
            self._record(phase, off, self.last)
            return None
        while True:
            if (ended := self._green()) is not None:
                return ended
            found = settled_by(self.trail.reviews, self.last.tree)
            judgement = self._judged(found, phase) if found else self._asked(phase)
            if judgement is not None:
                return None if judgement.verdict is Verdict.VERIFIED else judgement
            self._address(phase, self.trail.reviews[-1] if found is None else found)
            if (ended := self._mended()) is not None:
                return ended

    def _judged(self, found: Review, phase: Phase) -> Judgement | None:
        """What a review comes to; None where its findings are to be repaired."""
        cap = self.cap if phase.repair else 0
        number = max(self.last.number, 1)
        judgement = judge(found, gate_green=True, number=number, repair_cap=cap)
        if found.recalled and judgement is not None and judgement.verdict is Verdict.VERIFIED:
            known = Started(self._tree()).receipt(phase, READER, COMPLETED, reason=found.said)
            self._record(phase, known, self.last)
        return judgement

    def _asked(self, phase: Phase) -> Judgement | None:
        """A new review, written down with where the item stands after it."""
        planned, wave, trail = self.at.planned, self.wave, self.trail
        reviewer = wave.reviewer_of(planned)
        started = Started(self._tree(), driver=reviewer.driver if reviewer else None)
        more = prompt_file(planned, wave, phase)
        found = review(planned, self.at.place, wave, self.last, tuple(trail.reviews), more)
        trail.reviews.append(found)
        wave.gates.stop.check()  # a reviewer that was ended by us has said nothing
        judgement = self._judged(found, phase)
        approved = judgement is not None and judgement.verdict is Verdict.VERIFIED
        status = COMPLETED if approved else (STALLED if judgement else TO_BE_MENDED)
        receipt = started.receipt(phase, READER, status, work=self.last, reason=found.said)
        self._note(reviewed(receipt, found))
        stands = judgement or Judgement(
            Verdict.FAILED, f"a reviewer asks for changes: {found.said}"
        )
        outcome = outcome_of(planned, stands.verdict, stands.reason, trail)
        final = judgement is not None and judgement.verdict is Verdict.FAILED
        wave.recorder.reviewed(wave.subject(planned), found, outcome, final)
        wave.recorder.phased(wave.subject(planned), trail.phases[-1], None)
        return judgement

    def _address(self, phase: Phase, found: Review) -> None:
        """The first of the review's repairs; the gates behind it are what follows any change."""
        agent = self.pipeline.called(phase.repair[0])
        place = self.at.place
        prompt = phase_prompt(self.at.planned, place, self.wave, agent, self.last, found)
        self._work(agent, agent.name, prompt, MENDER)

    def _publish(self, phase: Phase) -> Judgement | None:
        """Nothing yet: all items of a wave are shipped together, when each has its verdict."""
        del phase
        return None

    def _once_approved(self) -> Review | None:
        """The last review that decided something, where it approved."""
        decided = [one for one in self.trail.reviews if one.word != ReviewWord.UNDECIDED]
        approved = decided and decided[-1].word == ReviewWord.APPROVED
        return decided[-1] if approved else None

    def _approved(self) -> Judgement:
        """The verdict of proven work: whether an approval, where it needs one, reaches it."""
        proven = Judgement(Verdict.VERIFIED, self.last.reason)
        if not self.wave.wants_review(self.at.planned):
            return proven
        found = self._once_approved()
        if found is None or self.last.tree is None:
            return Judgement(Verdict.UNDECIDED, "nobody has approved it, and it has to be reviewed")
        try:
            paths = self._since(found.tree, self.last.tree)
        except GitError as gone:
            why = f"what was approved cannot be compared with what it is now: {gone}"
            return Judgement(Verdict.UNDECIDED, why)
        if problem := course.approval_gone(self.pipeline, paths):
            return Judgement(Verdict.UNDECIDED, problem)
        self.approved_tree, self.after_approval = found.tree, paths
        return proven

    def _since(self, earlier: str, tree: str) -> tuple[str, ...]:
        ground = self.wave.ground_of(self.at.planned)
        if earlier == tree or not isinstance(ground, RepositoryGround):
            return ()
        return tuple(change.path for change in ground.git.changes(earlier, tree))

    def _tree(self) -> str | None:
        return self.last.tree if self.trail.attempts else None

    def _note(self, receipt: PhaseReceipt) -> None:
        """Keep the tree that the phase left, then have the next entry of the item name it."""
        if receipt.output is not None:
            name = of_step(receipt.output)
            save(self.at.planned, self.at.place, self.wave, receipt.output, name)
        self.trail.phases.append(receipt)
        self.wave.recorder.note_phase(self.slug, receipt)

    def _record(
        self,
        phase: Phase,
        receipt: PhaseReceipt,
        work: Attempt | None = None,
        number: int | None = None,
    ) -> None:
        self._note(receipt)
        self.wave.recorder.say(f"{self.slug}: phase {phase.name}: {receipt.status}")
        work = work or (self.last if self.trail.attempts else None)
        self.wave.recorder.phased(self.wave.subject(self.at.planned), receipt, work, number)


_STEPS: Mapping[str, Callable[[_Line, Phase], Judgement | None]] = {
    SETUP: _Line._set_up,
    AGENT: _Line._ask_agent,
    GATE: _Line._gate,
    REVIEW: _Line._review,
    PUBLISH: _Line._publish,
}
