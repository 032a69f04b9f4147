"""Put all verified items of a repository on one line of commits and prove every one of them.

Items are proven alone, so two that are green alone may break together. The line is base, then one
commit an item; each commit's tree is proven with its own item's test and the last one with every
item's. Where that is red, items are taken one by one and the one that breaks the rest is left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from driver.git import Commit, CommitSpec
from driver.ground import RepositoryGround
from driver.outcome import INTEGRATION, ItemOutcome, RunKind, TestRun, Verdict
from driver.phases.prove import run_test
from driver.pool import Leaving, run_all
from driver.prompts import command_text
from driver.wave_context import Planned, Wave

Entry = tuple[Planned, ItemOutcome]
_TRIAL_DATE = "0 +0000"


@dataclass(frozen=True, slots=True)
class Line:
    """Items in the order of their commits, the tree of each commit, and what was left out."""

    entries: tuple[Entry, ...]
    trees: tuple[str, ...]
    left_out: tuple[ItemOutcome, ...]


@dataclass(frozen=True, slots=True)
class _Job:
    planned: Planned
    tree: str


class Integration:
    """Proofs of one repository's items; a test that ran on a tree is not run there again."""

    def __init__(self, ground: RepositoryGround, wave: Wave) -> None:
        self._ground = ground
        self._wave = wave
        self._runs: dict[tuple[str, str, str], TestRun] = {}

    def line_up(self, entries: Sequence[Entry]) -> Line:
        """The longest line found that is green everywhere; `left_out` have their reasons."""
        for planned, outcome in entries:
            self._remember(planned, outcome)
        trees = self._trees(entries)
        if all(run.green for run in self._prove(entries, trees)):
            return self._line(entries, trees, ())
        return self._one_by_one(entries)

    def _one_by_one(self, entries: Sequence[Entry]) -> Line:
        kept: list[Entry] = []
        left_out: list[ItemOutcome] = []
        for entry in entries:
            trial = [*kept, entry]
            runs = self._prove(trial, self._trees(trial), only_last=True)
            bad = next((run for run in runs if not run.green), None)
            if bad is None:
                kept.append(entry)
            else:
                left_out.append(_evicted(entry[1], bad, kept))
        return self._line(kept, self._trees(kept), left_out)

    def _line(
        self, entries: Sequence[Entry], trees: tuple[str, ...], left_out: Sequence[ItemOutcome]
    ) -> Line:
        """The line, each item with the receipts for its own commit and for the last one."""
        told = []
        for (planned, outcome), tree in zip(entries, trees, strict=True):
            keys = dict.fromkeys((_key(planned, tree), _key(planned, trees[-1])))
            runs = tuple(self._runs[key] for key in keys if key in self._runs)
            told.append((planned, dataclasses.replace(outcome, together=runs)))
        return Line(tuple(told), trees, tuple(left_out))

    def _remember(self, planned: Planned, outcome: ItemOutcome) -> None:
        test = outcome.last_test
        if test is not None and test.tree is not None:
            self._runs[_key(planned, test.tree)] = test

    def _trees(self, entries: Sequence[Entry]) -> tuple[str, ...]:
        specs = [
            CommitSpec(planned.slug, outcome.changes, "trial", "trial@localhost", _TRIAL_DATE)
            for planned, outcome in entries
        ]
        return tuple(commit.tree for commit in self._import(specs))

    def _import(self, specs: Sequence[CommitSpec]) -> tuple[Commit, ...]:
        return self._ground.git.import_commits(self._ground.base, specs) if specs else ()

    def _prove(
        self, entries: Sequence[Entry], trees: Sequence[str], *, only_last: bool = False
    ) -> list[TestRun]:
        """Each item on its own commit's tree (unless `only_last`) and all items on the last."""
        jobs = {
            _key(planned, tree): _Job(planned, tree)
            for planned, tree in [
                *(() if only_last else zip((e[0] for e in entries), trees, strict=True)),
                *((planned, trees[-1]) for planned, _ in entries),
            ]
        }
        missing = [job for key, job in jobs.items() if key not in self._runs]
        stop = self._wave.gates.stop
        leaving = Leaving(lambda: stop.is_set, stop.insist, _left_behind)
        runs = run_all(missing, self._run, width=len(missing), leaving=leaving)
        for job, run in zip(missing, runs, strict=True):
            self._runs[_key(job.planned, job.tree)] = run
        return [self._runs[key] for key in jobs]

    def _run(self, job: _Job) -> TestRun:
        self._wave.gates.stop.check()
        output = self._wave.scratch(job.planned.slug) / f"together-{job.tree[:12]}"
        with self._ground.trees.checkout(job.tree) as proving:
            run = run_test(job.planned, proving, job.tree, self._wave, output, purpose=INTEGRATION)
        self._wave.recorder.say(f"{job.planned.slug}: together with the others: {run.kind}")
        return run


def _left_behind(job: _Job) -> TestRun:
    command = command_text(job.planned.item.test_command)
    return TestRun(RunKind.CANCELLED, command, None, "", 0.0, job.tree, reason="interrupted")


def _key(planned: Planned, tree: str) -> tuple[str, str, str]:
    return tree, command_text(planned.item.test_command), planned.home.work_dir


def _evicted(outcome: ItemOutcome, bad: TestRun, kept: Sequence[Entry]) -> ItemOutcome:
    others = ", ".join(planned.slug for planned, _ in kept)
    verdicts = {RunKind.COULD_NOT_RUN: Verdict.UNDECIDED, RunKind.CANCELLED: Verdict.HALTED}
    reason = f"green alone, but together with {others}: `{bad.command}`: {bad.reason}"
    return dataclasses.replace(
        outcome,
        verdict=verdicts.get(bad.kind, Verdict.FAILED),
        reason=reason,
        together=(bad,),
    )
