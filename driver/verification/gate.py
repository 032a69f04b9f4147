"""One gate: the item's test and the gates' own commands, each on the work's tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from driver.agents.attempt import assessed_with, of_trouble
from driver.agents.guarded import watched
from driver.checkout_guard.guard import CheckoutChange
from driver.domain.phase_receipt import CommandReceipt
from driver.domain.results import GATE, Attempt, Evidence, TestRun, Verdict
from driver.policy.judgement import Judgement, of_test
from driver.run_state.context import ItemRun
from driver.verification.assessment import Assessment, assess
from driver.verification.test_run import Test, TestRequest, prove, run_on
from state_store.documents.errors import TidegateError
from tools.settings.kinds import Command


@dataclass
class Examination:
    """One look at work; `label` names the files that keep what is printed, `runs` are those of the
    gates' own commands, which come after the item's test and only when that is believed."""

    item: ItemRun
    work: Attempt
    commands: Sequence[Command]
    label: str
    test: TestRun | None = None
    found: Evidence = field(default_factory=Evidence)
    runs: list[TestRun] = field(default_factory=list)

    def result(self) -> Attempt:
        """The work with its verdict. Every trouble is part of the answer."""
        item, blamed = self.item, tuple[CheckoutChange, ...]()
        with watched(item) as strays:
            try:
                judgement = self._tested()
                if judgement.verdict is Verdict.VERIFIED and self.commands:
                    judgement = self._commanded() or judgement
                blamed = strays()
            except (TidegateError, OSError) as trouble:
                judgement = of_trouble(trouble, item.wave)
        judgement, final = assessed_with(item.wave, judgement, blamed)
        return replace(
            self.work,
            verdict=judgement.verdict,
            reason=judgement.reason,
            test=self._telling(),
            evidence=self.found,
            final=final,
        )

    def receipts(self) -> tuple[CommandReceipt, ...]:
        """Each command that was run, the item's test first."""
        runs = (*([self.test] if self.test else []), *self.runs)
        return tuple(
            CommandReceipt(run.command, run.exit_code, round(run.duration_s * 1000)) for run in runs
        )

    def _tested(self) -> Judgement:
        item = self.item
        ask = TestRequest(f"test-{self.label}")
        self.test = prove(item, self.work.tree, ask)
        item.wave.recorder.tested(item.slug, self.test)
        weighed = Assessment(self.work.number, self.work.changes, self.test)
        judgement, self.found = assess(item, weighed)
        return judgement

    def _commanded(self) -> Judgement | None:
        """What the first red command says; None where all are green. One place for all of them, so
        that what one builds the next may use."""
        item, tree = self.item, self.work.tree
        base, folder = item.context.base, item.scratch
        with item.checkouts.test_checkout(tree) as proving:
            for number, command in enumerate(self.commands, start=1):
                test = Test(command, item.work_dir, base)
                output = folder / f"gate-{self.label}-{number}"
                run = run_on(test, proving, tree, item.wave, output, purpose=GATE)
                self.runs.append(run)
                item.say(f"gate `{run.command}`: {run.kind}")
                if not run.green:
                    said = of_test(run)
                    return Judgement(said.verdict, f"gate failed: {run.command}: {said.reason}")
        return None

    def _telling(self) -> TestRun | None:
        """The run that an agent is shown: the red one of a gate, else that of the item's test."""
        red = [run for run in self.runs if not run.green]
        return red[0] if red else self.test
