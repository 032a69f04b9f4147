"""A gate: the item's test and the gate's own commands, each on the work's tree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from driver.agents.attempt import HeldAgainst, assessed_with, held_against, of_trouble
from driver.domain.phase_receipt import CommandReceipt
from driver.domain.results import GATE, Attempt, Evidence, TestRun, Verdict
from driver.policy.judgement import Judgement, of_test
from driver.run_state.context import ItemRun
from driver.run_state.test_turns import Alone
from driver.terminal.safe_text import describe_run
from driver.verification.alone import settled
from driver.verification.assessment import assess
from driver.verification.canary_beside import CanaryBeside
from driver.verification.test_run import ItemWork, ProvenWork, Test, prove, run_test
from driver.workspace.repository_context import TestCheckout
from state_store.documents.errors import TidegateError
from state_store.values.lazy_dataclass import dataclass, field, replace
from tools.settings.kinds import Command


@dataclass
class Examination:
    """The gate's check of an item's work. `label` is part of the names of the output files. `runs`
    are the runs of the gate's own commands, which follow the item's test if it is accepted."""

    item: ItemRun
    work: Attempt
    commands: Sequence[Command]
    label: str
    test: TestRun | None = None
    found: Evidence = field(default_factory=Evidence)
    runs: list[TestRun] = field(default_factory=list)

    def result(self) -> Attempt:
        """The work with its verdict. Errors of the workspace become part of the verdict. The
        attempt's test is the red run of a gate command, else the run of the item's test."""
        item, work, held = self.item, self.work, HeldAgainst()
        with item.guarded() as checkout_changes:
            try:
                judgement = self._proven()
                if judgement.verdict is Verdict.VERIFIED and self.commands:
                    judgement = self._run_commands() or judgement
                held = held_against(item, checkout_changes(), work.changes)
            except (TidegateError, OSError) as trouble:
                judgement = of_trouble(trouble, item.wave)
        judgement = assessed_with(item.wave, judgement, held)
        return replace(
            work,
            verdict=judgement.verdict,
            reason=judgement.reason,
            waits=judgement.waits,
            test=next((run for run in self.runs if not run.green), self.test),
            evidence=self.found,
            final=held.is_final,
            notes=(*work.notes, *held.notes),
        )

    def _proven(self) -> Judgement:
        """The judgement of the item's test on the work, with the further runs that assess it."""
        item, work = self.item, self.work
        facts = (item, work.number, work.changes, work.tree)
        canary = CanaryBeside(ItemWork(*facts))
        try:
            self.test = prove(item, work.tree, f"test-{self.label}", begun=canary.begin)
            item.say(f"test {describe_run(self.test.kind, self.test.duration_s)}", passing=True)
            judgement, self.found = assess(ProvenWork(*facts, self.test), canary.take)
        finally:
            canary.close()
        return judgement

    def receipts(self) -> tuple[CommandReceipt, ...]:
        """The receipt of each command, the item's test first."""
        runs = (*([self.test] if self.test else []), *self.runs)
        return tuple(
            CommandReceipt(run.command, run.exit_code, round(run.duration_s * 1000)) for run in runs
        )

    def _run_commands(self) -> Judgement | None:
        """The judgement of the first red command; None if all are green. All run in the same
        checkout, so a command can use the build of an earlier command."""
        item, tree = self.item, self.work.tree
        base, folder = item.context.base, item.scratch
        with item.workspace.test_checkout(tree) as checkout:
            for number, command in enumerate(self.commands, start=1):
                test = Test(command, item.work_dir, base)
                output = folder / f"gate-{self.label}-{number}"
                run = self._run(test, checkout, output)
                self.runs.append(run)
                item.say(f"gate `{run.command}`: {run.kind}", passing=True)
                if not run.green:
                    judged = of_test(run)
                    return Judgement(judged.verdict, f"gate failed: {run.command}: {judged.reason}")
        return None

    def _run(self, test: Test, checkout: TestCheckout, output: Path) -> TestRun:
        """Run one command; if others may have disturbed it, once more in the same checkout."""

        def once(room: Alone) -> TestRun:
            asked, tree = test.with_room(room), self.work.tree
            return run_test(asked, checkout, tree, self.item.wave, output, purpose=GATE)

        return settled(self.item.wave, test.name, once)
