"""Put all verified items of a repository on one line of commits and prove that line.

Items are proven alone, so two that are green alone may break together. The last tree is proven
with every item's test and gates and the commands of `[verify] integration`, each other commit's
tree with its own item's test. Where that is red, `driver.guilty` finds who has to stay out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from driver.domain.item_key import digest
from driver.domain.prompts import command_text, in_sequence
from driver.domain.results import INTEGRATION, PROOF, Change, ItemOutcome, RunKind, TestRun, Verdict
from driver.execution.worker_pool import ShutdownPolicy, run_all
from driver.git.private_git import CommitSpec
from driver.merge_queue import batch_result as together
from driver.merge_queue import bisect as guilty
from driver.merge_queue.culprits import Answer, Culprit, Items, Question
from driver.policy.acceptance import ALLOW, NO_ANSWER
from driver.run_state.context import ItemRun, Wave
from driver.terminal.safe_text import describe_run
from driver.verification.test_run import Test, run_test
from driver.workspace.base_branch import Head, already_made, conflicts
from driver.workspace.clone_context import CloneContext

Entry = tuple[ItemRun, ItemOutcome]
_Key = tuple[str, Test]  # a tree, and what runs on it
_TRIAL_DATE = "0 +0000"


@dataclass(frozen=True, slots=True)
class Batch:
    """Items in the order of their commits, the tree of each commit, and what was left out."""

    entries: tuple[Entry, ...]
    trees: tuple[str, ...]
    left_out: tuple[ItemOutcome, ...]


class Integration:
    """Proofs of one repository's items on one `head`; a test that ran on a tree is not run there
    again. `notes` are for people; `receipts` are all runs so far and `runs` is how many trees they
    took, each second look counted again, both with those of the integration `before`."""

    def __init__(
        self,
        ground: CloneContext,
        wave: Wave,
        head: Head,
        before: Integration | None = None,
    ) -> None:
        self.head = head
        self.notes: list[str] = [head.note] if head.note else []
        self.receipts: list[TestRun] = [*before.receipts] if before else []
        self.runs: int = before.runs if before else 0
        self._ground = ground
        self._wave = wave
        self._runs: dict[_Key, TestRun] = {}
        self._answers: dict[_Key, Answer] = {}
        self._believed: set[Test] = set()
        self._expected: dict[_Key, together.Expected] = {}

    @property
    def commands(self) -> tuple[str | tuple[str, ...], ...]:
        """What is to be green on the last tree besides the items' own tests."""
        return self._wave.settings.verify.integration

    @property
    def moved(self) -> bool:
        """Whether the items stand on another commit than the one they were built on."""
        return self.head.commit != self._ground.base

    def build_batch(self, entries: Sequence[Entry]) -> Batch:
        """The longest line found that is green everywhere; `left_out` have their reasons."""
        fitting, left_out = self._fitting(entries)
        if not fitting:
            return Batch((), (), tuple(left_out))
        trial = _Trial(self, fitting)
        found = guilty.find_culprits(trial.owners, trial.ask)
        left_out += [trial.blamed(blame, self.moved) for blame in found.blamed]
        kept = found.kept
        if doubted := self._after_all(trial, kept):
            left_out, kept = [*left_out, doubted], ()
        for outcome in left_out:
            self._wave.recorder.say(f"{outcome.slug}: left out: {outcome.reason}")
        told = [(fitting[item][0], trial.with_runs(item, kept)) for item in kept]
        trees = [trial.tree(frozenset(kept[: at + 1])) for at in range(len(told))]
        return Batch(tuple(told), tuple(trees), tuple(left_out))

    def _after_all(self, trial: _Trial, kept: Sequence[int]) -> ItemOutcome | None:
        """The outcome of one who is left alone and whose only proof was made while others' agents
        were at work, where it is not green again now; they could have had a hand in it."""
        if len(kept) != 1 or len(self._wave.plan) == 1:
            return None
        key, outcome = trial.proof_of(kept[0])
        if self._runs[key].purpose != PROOF:
            return None
        run = self._run_all([key], again=False)[key]
        if (answer := _answer(run)) is Answer.GREEN:
            self._runs[key] = run
            return None
        verdict = Verdict.UNDECIDED if answer is Answer.SILENT else Verdict.FLAKY
        reason = f"green while other agents were at work, and then {run.reason or run.kind}"
        return replace(outcome, verdict=verdict, reason=reason, batch_runs=(run,))

    def _fitting(self, entries: Sequence[Entry]) -> tuple[list[Entry], list[ItemOutcome]]:
        """The entries that can stand on the head, and the others with their reason."""
        if not self.moved:
            return [*entries], []
        git, fitting, left_out = self._ground.git, list[Entry](), list[ItemOutcome]()
        theirs = git.changes(self._ground.base_tree, git.tree_of(self.head.commit))
        for item, outcome in entries:
            if why := _misfit(self._ground.repository.branch, outcome, theirs):
                left_out.append(replace(outcome, verdict=Verdict.UNDECIDED, reason=why))
            else:
                fitting.append((item, outcome))
        return fitting, left_out

    def trees_of(self, entries: Sequence[Entry]) -> tuple[str, ...]:
        """The tree of each commit of a line of these items; of the head for none."""
        if not entries:
            return (self._ground.git.tree_of(self.head.commit),)
        specs = [
            CommitSpec(item.slug, outcome.changes, "trial", "trial@localhost", _TRIAL_DATE)
            for item, outcome in entries
        ]
        return tuple(c.tree for c in self._ground.git.import_commits(self.head.commit, specs))

    def remember(self, key: _Key, run: TestRun) -> None:
        """A proof of before, where there is none of this phase."""
        self._runs.setdefault(key, run)
        self._answers.setdefault(key, Answer.GREEN)

    def expect(self, key: _Key, expected: together.Expected) -> None:
        """What the test has to count on this tree; on commits that came meanwhile nobody knows."""
        if not self.moved and (expected.proofs or key not in self._expected):
            self._expected[key] = expected

    def answers(self, keys: Iterable[_Key]) -> Mapping[_Key, Answer]:
        """What each test says of its tree. A test that is red for the first time is asked again."""
        missing = [key for key in dict.fromkeys(keys) if key not in self._answers]
        first = self._run_all(missing, again=False)
        doubted = [key for key, run in first.items() if self._is_doubted(key, run)]
        second = self._run_all(doubted, again=True)
        for key, run in first.items():
            self._runs[key] = run
            self._answers[key] = _answer(run)
        for key, run in second.items():
            self._settle(key, run)
        return self._answers

    def run_of(self, tree: str, test: Test) -> TestRun | None:
        """The run that was believed, if there was one."""
        return self._runs.get((tree, test))

    def _is_doubted(self, key: _Key, run: TestRun) -> bool:
        return _answer(run) is Answer.RED and key[1] not in self._believed

    def _settle(self, key: _Key, second: TestRun) -> None:
        """A red test asked once more: red is believed, green is a contradiction."""
        answer = _answer(second)
        if answer is Answer.RED:
            self._believed.add(key[1])
        elif answer is Answer.GREEN and self._wave.settings.verify.flake_policy == ALLOW:
            self._runs[key], self._answers[key] = second, Answer.GREEN
            self.notes.append(f"flaky, and allowed to be: `{second.command}` was red, then green")
        elif answer is Answer.GREEN:
            self._answers[key] = Answer.FLAKY
        else:
            self._runs[key], self._answers[key] = second, Answer.SILENT

    def _run_all(self, keys: Sequence[_Key], *, again: bool) -> dict[_Key, TestRun]:
        stop = self._wave.gates.stop
        shutdown = ShutdownPolicy(
            lambda: stop.is_set, stop.force, _left_behind, lambda: stop.grace_s
        )
        runs = run_all(keys, lambda key: self._run(key, again), width=len(keys), shutdown=shutdown)
        stop.check()  # what was cut off says nothing of anybody
        self.receipts += runs
        self.runs += len({tree for tree, _ in keys})
        return dict(zip(keys, runs, strict=True))

    def _run(self, key: _Key, again: bool) -> TestRun:
        self._wave.gates.check()
        tree, test = key
        name = f"{tree[:12]}-{digest(test.command, test.work_dir)[:8]}"
        output = self._wave.scratch(together.FOLDER) / (f"{name}-again" if again else name)
        with self._ground.test_checkout(tree) as proving:
            run = run_test(test, proving, tree, self._wave, output, purpose=INTEGRATION)
        said = f"together: {run.command}: {describe_run(run.kind, run.duration_s)}"
        self._wave.recorder.say(f"{said}, at a second look" if again else said)
        return together.weighed(run, self._expected.get(key, together.Expected()))


class _Trial:
    """Some items as numbers, their tests as numbers, and how to ask for them."""

    def __init__(self, integration: Integration, entries: Sequence[Entry]) -> None:
        self._integration = integration
        self._entries = entries
        base = integration.head.commit
        own = [Test(i.spec.test_command, i.work_dir, base) for i, _ in entries]
        common = [Test(command, ".", base) for command in integration.commands]
        # Who stands as it was proven has passed its gates already.
        gated = len(entries) > 1 or integration.moved
        gates = [_gates(item, base) if gated else None for item, _ in entries]
        # Own tests first; one that is also a gate, or common, is asked under each of its numbers.
        numbered = [
            *((test, _owners(test, own)) for test in dict.fromkeys(own)),
            *((test, _owners(test, gates)) for test in dict.fromkeys(gates) if test),
            *((test, frozenset[int]()) for test in dict.fromkeys(common)),
        ]
        self._tests = [test for test, _ in numbered]
        self.owners = [owners for _, owners in numbered]
        self._own = [self._tests.index(test) for test in own]
        self._trees: dict[Items, str] = {}
        for item, (_, outcome) in enumerate(entries):
            proof = outcome.last_test
            if proof is not None and proof.tree is not None:
                integration.remember((proof.tree, own[item]), proof)

    def ask(self, questions: Sequence[Question]) -> dict[Question, Answer]:
        """The answers, from a run wherever none is known."""
        keys = {question: self._key(question.items, question.test) for question in questions}
        for question, key in keys.items():
            self._integration.expect(key, self._expected(question))
        answers = self._integration.answers(keys.values())
        return {question: answers[key] for question, key in keys.items()}

    def _expected(self, question: Question) -> together.Expected:
        known = {item for item in question.items if self._own[item] == question.test}
        proofs = (self._entries[item][1].last_test for item in sorted(known))
        fewer = sum(self._entries[item][0].spec.allowance.fewer_tests_ok for item in question.items)
        return together.Expected(tuple(run for run in proofs if run is not None), fewer)

    def tree(self, items: Items) -> str:
        """The tree of a line of these items."""
        if items not in self._trees:
            line = sorted(items)
            trees = self._integration.trees_of([self._entries[item] for item in line])
            beginnings = [frozenset(line[: at + 1]) for at in range(len(line))] or [items]
            self._trees |= dict(zip(beginnings, trees, strict=True))
        return self._trees[items]

    def with_runs(self, item: int, kept: Sequence[int]) -> ItemOutcome:
        """The outcome with the receipts for the item's own commit and for the last one."""
        places = dict.fromkeys((frozenset(i for i in kept if i <= item), frozenset(kept)))
        runs = [self._run_of(items, self._own[item]) for items in places]
        known = tuple(run for run in runs if run is not None)
        return replace(self._entries[item][1], batch_runs=known)

    def proof_of(self, item: int) -> tuple[_Key, ItemOutcome]:
        """The item's own test on the tree that has it alone, and its outcome."""
        return self._key(frozenset({item}), self._own[item]), self._entries[item][1]

    def blamed(self, blame: Culprit, moved: bool) -> ItemOutcome:
        """The outcome of an item that is left out."""
        run = self._run_of(blame.items, blame.test)
        if run is None:
            raise AssertionError("an item is blamed for a run that was never made")
        alone = blame.answer is Answer.RED and blame.items == {blame.item}
        names = [item.slug for item, _ in self._entries]
        return replace(
            self._entries[blame.item][1],
            verdict=_verdict(blame, surroundings=alone and moved),
            reason=together.reason(blame, run, self.owners[blame.test], names),
            batch_runs=(run,),
        )

    def _run_of(self, items: Items, test: int) -> TestRun | None:
        return self._integration.run_of(*self._key(items, test))

    def _key(self, items: Items, test: int) -> _Key:
        return self.tree(items), self._tests[test]


def _owners(test: Test, asked: Sequence[Test | None]) -> Items:
    return frozenset(item for item, one in enumerate(asked) if one == test)


def _gates(item: ItemRun, base: str) -> Test | None:
    """What the gates of an item's pipeline run besides its test, one after the other."""
    commands = item.pipeline.commands
    return Test(in_sequence(commands), item.work_dir, base) if commands else None


def _misfit(branch: str | None, outcome: ItemOutcome, theirs: Sequence[Change]) -> str:
    """Why an item cannot be put on commits that came meanwhile; "" when it can."""
    if already_made(outcome.changes, theirs):
        return together.there_already(branch)
    paths = conflicts(outcome.changes, theirs)
    return together.moved_under(branch, paths) if paths else ""


def _verdict(blame: Culprit, *, surroundings: bool) -> Verdict:
    """Only who breaks something, or is broken, has failed; the surroundings cost no attempt."""
    if blame.answer is Answer.FLAKY:
        return Verdict.FLAKY
    if blame.answer is Answer.SILENT or not blame.items or surroundings:
        return Verdict.UNDECIDED
    return Verdict.FAILED


def _answer(run: TestRun) -> Answer:
    if run.kind in NO_ANSWER:
        return Answer.SILENT
    return Answer.GREEN if run.green else Answer.RED


def _left_behind(key: _Key) -> TestRun:
    tree, test = key
    command = command_text(test.command)
    return TestRun(RunKind.CANCELLED, command, None, "", 0.0, tree, reason="interrupted")
