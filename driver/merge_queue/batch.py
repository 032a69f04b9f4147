"""Puts all verified items of a repository on one chain of commits and tests this batch.

Items are verified alone, so two green items may break together. The last tree is tested with every
item's test and gates and the commands of `[verify] integration`. The tree of each other commit is
tested with its own item's test. After a red test `bisect` finds the items to evict.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from driver.domain.item_key import digest
from driver.domain.prompts import command_text, in_sequence
from driver.domain.results import INTEGRATION, PROOF, ItemOutcome, RunKind, TestRun, Verdict
from driver.execution.worker_pool import ShutdownPolicy, run_all
from driver.git.private_git import CommitSpec
from driver.merge_queue.batch_result import (
    FOLDER,
    Expected,
    assess_counts,
    moved_under,
    reason,
    there_already,
)
from driver.merge_queue.bisect import find_culprits
from driver.merge_queue.culprits import Answer, Culprit, Items, Question
from driver.policy.acceptance import ALLOW
from driver.policy.judgement import NO_ANSWER
from driver.run_state.context import ItemRun, Wave
from driver.run_state.test_turns import Alone
from driver.terminal.safe_text import counted, describe_run
from driver.verification.alone import learned, room_needed
from driver.verification.test_run import Test, of_failed_setup, own_test, run_test
from driver.workspace.base_branch import Head, already_made, conflicts
from driver.workspace.clone_context import CloneContext
from driver.workspace.setup import WorkSetupError
from state_store.values.lazy_dataclass import dataclass, replace
from state_store.views.item_progress import TOGETHER

Entry = tuple[ItemRun, ItemOutcome]
Key = tuple[str, Test]  # a tree, and the test that runs on it
_TRIAL_DATE = "0 +0000"
_NO_ROOMS: Mapping[Key, Alone] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Batch:
    """Items in the order of their commits, the tree of each commit, and the evicted items."""

    entries: tuple[Entry, ...]
    trees: tuple[str, ...]
    evicted: tuple[ItemOutcome, ...]


class Integration:
    """Test runs of one repository's items on the commit `head`. No test runs twice on the same
    tree. `notes` are for people. `receipts` are all runs so far, and `runs` counts their trees,
    including reruns. Both continue the integration `before`."""

    def __init__(
        self,
        repository: CloneContext,
        wave: Wave,
        head: Head,
        before: Integration | None = None,
    ) -> None:
        self.head = head
        self.commands = wave.settings.verify.integration  # must also be green on the last tree
        self.notes: list[str] = [head.note] if head.note else []
        self.receipts: list[TestRun] = [*before.receipts] if before else []
        self.runs: int = before.runs if before else 0
        self.known: dict[Key, TestRun] = {}
        self.answers: dict[Key, Answer] = {}
        self.expected: dict[Key, Expected] = {}
        self._repository = repository
        self._wave = wave
        self._red_twice: set[Test] = set()

    @property
    def moved(self) -> bool:
        """True if the batch is on another commit than the base of its items."""
        return self.head.commit != self._repository.base

    def build_batch(self, entries: Sequence[Entry]) -> Batch:
        """The longest batch found that is green everywhere. Each evicted item has its reason."""
        fitting, evicted = self._fitting(entries)
        if not fitting:
            return Batch((), (), tuple(evicted))
        trial = Trial(self, fitting)
        with self._wave.recorder.notes.during(TOGETHER, counted(len(fitting), "item")):
            found = find_culprits(trial.owners, trial.ask)
        evicted += [trial.outcome_of(culprit) for culprit in found.culprits]
        kept = found.kept
        if len(kept) == 1 and len(self._wave.plan) > 1:
            unsure = self._proven_alone(trial, kept[0])
            evicted, kept = ([*evicted, unsure], ()) if unsure else (evicted, kept)
        for outcome in evicted:
            self._wave.recorder.say(f"{outcome.slug}: evicted: {outcome.reason}")
        batch = tuple((fitting[item][0], trial.with_runs(item, kept)) for item in kept)
        trees = tuple(trial.tree(frozenset(kept[: at + 1])) for at in range(len(kept)))
        return Batch(batch, trees, tuple(evicted))

    def _fitting(self, entries: Sequence[Entry]) -> tuple[list[Entry], list[ItemOutcome]]:
        """The entries that fit on the head, and the outcomes of the others."""
        if not self.moved:
            return [*entries], []
        git, branch = self._repository.git, self._repository.repository.branch
        fitting, evicted = list[Entry](), list[ItemOutcome]()
        theirs = git.changes(self._repository.base_tree, git.tree_of(self.head.commit))
        for item, outcome in entries:
            if already_made(outcome.changes, theirs):
                why = there_already(branch)
            elif paths := conflicts(outcome.changes, theirs):
                why = moved_under(branch, paths)
            else:
                fitting.append((item, outcome))
                continue
            evicted.append(replace(outcome, verdict=Verdict.UNDECIDED, reason=why))
        return fitting, evicted

    def _proven_alone(self, trial: Trial, item: int) -> ItemOutcome | None:
        """The outcome of the only remaining item if a rerun of its test is not green; None if
        it is green. Its only proof ran while other agents worked, and they could have tampered
        with it."""
        key, outcome = trial.proof_of(item)
        if self.known[key].purpose != PROOF:
            return None
        run = self._run_all([key], again=False)[key]
        if (answer := _answer(run)) is Answer.GREEN:
            self.known[key] = run
            return None
        verdict = Verdict.UNDECIDED if answer is Answer.SILENT else Verdict.FLAKY
        why = f"green while other agents were at work, but then {run.reason or run.kind}"
        return replace(outcome, verdict=verdict, reason=why, batch_runs=(run,))

    def trees_of(self, entries: Sequence[Entry]) -> tuple[str, ...]:
        """The tree of each commit of a batch of these items; without items, the tree of the
        head."""
        git, head = self._repository.git, self.head.commit
        if not entries:
            return (git.tree_of(head),)
        specs = [
            CommitSpec(item.slug, outcome.changes, "trial", "trial@localhost", _TRIAL_DATE)
            for item, outcome in entries
        ]
        return git.trees_after(head, specs)

    def ask(self, keys: Iterable[Key]) -> Mapping[Key, Answer]:
        """The answer of each test on its tree. A test that is red for the first time runs again.
        Red twice is accepted; red, then green is FLAKY."""
        missing = [key for key in dict.fromkeys(keys) if key not in self.answers]
        first = self._run_all(self.longest_first(missing), again=False)
        answers = {key: _answer(run) for key, run in first.items()}
        if any(answer is not Answer.GREEN for answer in answers.values()):
            self._wave.ahead.stop()  # the batch will be another one
        doubted = [k for k in first if answers[k] is Answer.RED and k[1] not in self._red_twice]
        rooms = {key: room_needed(first[key], key[1].name) for key in doubted}
        second = self._run_all(doubted, again=True, rooms=rooms)
        self.known |= first
        self.answers |= answers
        for key, run in second.items():
            answer = _answer(run)
            if answer is Answer.RED:
                self._red_twice.add(key[1])
            elif answer is Answer.GREEN and rooms[key]:
                self.known[key] = learned(self._wave, key[1].name, rooms[key], run)
                self.answers[key] = answer
            elif answer is Answer.GREEN and self._wave.settings.verify.flake_policy == ALLOW:
                self.known[key], self.answers[key] = run, answer
                self.notes.append(
                    f"flaky, but allowed by the settings: `{run.command}` was red, then green"
                )
            elif answer is Answer.GREEN:
                self.answers[key] = Answer.FLAKY
            else:
                self.known[key], self.answers[key] = run, answer
        return self.answers

    def longest_first(self, keys: Iterable[Key]) -> list[Key]:
        """The keys in an order that ends early: unknown tests, then those that took longest."""
        took = {test: run.duration_s for (_, test), run in self.known.items()}
        return sorted(keys, key=lambda key: -took.get(key[1], math.inf))

    def _run_all(
        self, keys: Sequence[Key], *, again: bool, rooms: Mapping[Key, Alone] = _NO_ROOMS
    ) -> dict[Key, TestRun]:
        stop = self._wave.gates.stop
        shutdown = ShutdownPolicy(lambda: stop.is_set, stop.force, _cut_off, lambda: stop.grace_s)

        def run(key: Key) -> TestRun:
            return self._run(key, again, rooms.get(key, Alone.NO))

        runs = run_all(keys, run, width=len(keys), shutdown=shutdown)
        stop.check()  # a run that was cut off is no answer
        self.receipts += runs
        self.runs += len({tree for tree, _ in keys})
        return dict(zip(keys, runs, strict=True))

    def _run(self, key: Key, again: bool, room: Alone) -> TestRun:
        """A run of a test. Only the first one, which needs no room, may have been made ahead."""
        context, wave = self._repository, self._wave
        run = None if again or room is not Alone.NO else wave.ahead.take(context, key)
        run = run or run_together(context, wave, key, room, again=again)
        return assess_counts(run, self.expected.get(key, Expected()))


def run_together(
    context: CloneContext, wave: Wave, key: Key, room: Alone, *, again: bool
) -> TestRun:
    """Run a test on the tree of several items. Raises what closes a gate."""
    wave.gates.check()
    tree, test = key
    name = f"{tree[:12]}-{digest(test.command, test.work_dir)[:8]}"
    output = wave.scratch(FOLDER) / (f"{name}-again" if again else name)
    try:
        with context.test_checkout(tree) as checkout:
            run = run_test(test.with_room(room), checkout, tree, wave, output, purpose=INTEGRATION)
    except WorkSetupError as failed:
        run = of_failed_setup(test, tree, failed, INTEGRATION)
    line = f"batch: {run.command}: {describe_run(run.kind, run.duration_s)}"
    wave.recorder.say(f"{line}, in a rerun" if again else line, passing=True)
    return run


class Trial:
    """Numbers the items and their tests for `bisect`, and answers its questions with runs."""

    def __init__(self, integration: Integration, entries: Sequence[Entry]) -> None:
        self._integration = integration
        self._entries = entries
        base = integration.head.commit
        own = [replace(own_test(item), base=base) for item, _ in entries]
        # A single item on its own base has passed its gates already.
        gated = len(entries) > 1 or integration.moved
        gates = [
            Test(in_sequence(commands), item.work_dir, base)
            if gated and (commands := item.pipeline.commands)
            else None
            for item, _ in entries
        ]
        common = [Test(command, ".", base) for command in integration.commands]
        # Own tests first. A test that is also a gate, or common, has a number for each role.
        numbered = [
            *((test, _owners(test, own)) for test in dict.fromkeys(own)),
            *((test, _owners(test, gates)) for test in dict.fromkeys(gates) if test),
            *((test, frozenset[int]()) for test in dict.fromkeys(common)),
        ]
        self._tests = [test for test, _ in numbered]
        self.owners = [owners for _, owners in numbered]
        self._own = [self._tests.index(test) for test in own]
        self._trees: dict[Items, str] = {}
        for test, (_, outcome) in zip(own, entries, strict=True):
            proof = outcome.last_test
            if proof is not None and proof.tree is not None:
                integration.known.setdefault((proof.tree, test), proof)
                integration.answers.setdefault((proof.tree, test), Answer.GREEN)

    def ask(self, questions: Sequence[Question]) -> dict[Question, Answer]:
        """The answers, from a new run if none is known."""
        integration = self._integration
        keys = {question: self._key(question.items, question.test) for question in questions}
        for question, key in keys.items():
            if integration.moved:  # the number of tests on newer commits is unknown
                break
            own = sorted(item for item in question.items if self._own[item] == question.test)
            proofs = tuple(run for item in own if (run := self._entries[item][1].last_test))
            specs = [self._entries[item][0].spec for item in question.items]
            fewer = sum(spec.allowance.fewer_tests_ok for spec in specs)
            if proofs or key not in integration.expected:
                integration.expected[key] = Expected(proofs, fewer)
        answers = integration.ask(keys.values())
        return {question: answers[key] for question, key in keys.items()}

    def tree(self, items: Items) -> str:
        """The tree of a batch of these items."""
        if items not in self._trees:
            line = sorted(items)
            trees = self._integration.trees_of([self._entries[item] for item in line])
            beginnings = [frozenset(line[: at + 1]) for at in range(len(line))] or [items]
            self._trees |= dict(zip(beginnings, trees, strict=True))
        return self._trees[items]

    def _key(self, items: Items, test: int) -> Key:
        return self.tree(items), self._tests[test]

    def with_runs(self, item: int, kept: Sequence[int]) -> ItemOutcome:
        """The outcome with the runs on the item's own commit and on the last commit."""
        batches = dict.fromkeys((frozenset(i for i in kept if i <= item), frozenset(kept)))
        keys = (self._key(items, self._own[item]) for items in batches)
        runs = tuple(run for key in keys if (run := self._integration.known.get(key)))
        return replace(self._entries[item][1], batch_runs=runs)

    def first_keys(self, *, whole: bool) -> Iterator[list[Key]]:
        """The keys that the search asks for first: if the items are the `whole` batch, each test on
        the last tree, then each item's own test at its commit."""
        line = range(len(self._entries))
        self.tree(frozenset(line))  # with those of all beginnings
        if whole:
            yield [self._key(frozenset(line), test) for test in range(len(self._tests))]
        yield [self._key(frozenset(line[: at + 1]), self._own[at]) for at in line]

    def proof_key(self, item: int) -> Key:
        """The item's own test on the tree of the item alone."""
        own = self._entries[item][1].tree
        return (own, self._tests[self._own[item]]) if own else self.proof_of(item)[0]

    def proof_of(self, item: int) -> tuple[Key, ItemOutcome]:
        """The item's own test on the tree of the item alone, and its outcome."""
        return self._key(frozenset({item}), self._own[item]), self._entries[item][1]

    def outcome_of(self, culprit: Culprit) -> ItemOutcome:
        """The outcome of an evicted item. It is FAILED only if it breaks a test, or its test is
        broken. Other reasons cost no attempt."""
        run = self._integration.known[self._key(culprit.items, culprit.test)]
        alone = culprit.answer is Answer.RED and culprit.items == {culprit.item}
        surroundings = not culprit.items or (alone and self._integration.moved)
        verdict = Verdict.FAILED
        if culprit.answer is Answer.FLAKY:
            verdict = Verdict.FLAKY
        elif culprit.answer is Answer.SILENT or surroundings:
            verdict = Verdict.UNDECIDED
        names = [item.slug for item, _ in self._entries]
        why = reason(culprit, run, self.owners[culprit.test], names)
        outcome = self._entries[culprit.item][1]
        return replace(outcome, verdict=verdict, reason=why, batch_runs=(run,))


def _owners(test: Test, asked: Sequence[Test | None]) -> Items:
    return frozenset(item for item, one in enumerate(asked) if one == test)


def _answer(run: TestRun) -> Answer:
    if run.kind in NO_ANSWER:
        return Answer.SILENT
    return Answer.GREEN if run.green else Answer.RED


def _cut_off(key: Key) -> TestRun:
    """The run of a test that a shutdown cut off."""
    tree, test = key
    command = command_text(test.command)
    return TestRun(RunKind.CANCELLED, command, None, "", 0.0, tree, reason="interrupted")
