"""What happened to items, as frozen data: changes, test runs, attempts, verdicts, shipments.

No I/O here; whoever judges, reports or journals an item takes its words from this module.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from driver.backend_api.driver import Usage
from driver.domain.phase_receipt import PhaseReceipt
from driver.domain.reviews import Review
from driver.runners.result import Counts, Doubt
from state_store.database import events

BUILD = "build"
REPAIR = "repair"
RESUME = "resume"  # no dispatch: what an earlier run left
REVIEW = events.REVIEW

# What a test was run for.
BASELINE = "baseline"
PROOF = "proof"
SPOT_CHECK = "spot_check"
CANARY = "canary"
WITHOUT_ADDED_TESTS = "without_added_tests"
INTEGRATION = "integration"
GATE = "gate"  # a command of a pipeline's gate

NO_SANDBOX = "none"

# Git's modes, as changes and recordings carry them.
MODE_FILE = "100644"
MODE_PROGRAM = "100755"
MODE_LINK = "120000"
MODE_NESTED = "160000"  # another repository, which can neither be shipped nor recorded


class Verdict(StrEnum):
    """The orchestrator's judgement of an item; the agent's words are never part of it."""

    VERIFIED = "verified"
    FAILED = "failed"
    REFUSED = "refused"
    NO_CHANGE = "no_change"
    ALREADY_GREEN = "already_green"
    UNDECIDED = "undecided"
    FLAKY = "flaky"
    LEASED_ELSEWHERE = "leased_elsewhere"
    SHIPPED_ELSEWHERE = "shipped_elsewhere"
    WITHDRAWN = "withdrawn"
    HALTED = "halted"
    OVER_BUDGET = "over_budget"


REPAIRABLE = frozenset({Verdict.FAILED, Verdict.REFUSED, Verdict.NO_CHANGE})
# Nothing is wrong with the work: another run has the item, or has shipped it, or a person wants it
# no more.
OTHERS = frozenset({Verdict.LEASED_ELSEWHERE, Verdict.SHIPPED_ELSEWHERE, Verdict.WITHDRAWN})


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs from the base commit, seen in git objects, never as an agent tells it.

    `path` is repo-relative with `/`; `mode` is one of the modes above, after the change, None for
    a deletion; `blob` is the new object id, `base_blob` the old one where that is known. A rename
    appears as a deletion and an addition.
    """

    path: str
    mode: str | None
    blob: str | None
    base_mode: str | None
    base_blob: str | None = field(default=None, compare=False)

    @property
    def deleted(self) -> bool:
        """True when the path exists on the base only."""
        return self.mode is None


class RunKind(StrEnum):
    """How a test command ended; RED, TIMED_OUT and mostly KILLED are the work's fault."""

    GREEN = "green"
    RED = "red"
    TIMED_OUT = "timed_out"
    KILLED = "killed"  # by a signal
    COULD_NOT_RUN = "could_not_run"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class TestRun:
    """One run of a test command on one git tree (`tree` is None in place), and its receipt.

    `base` is the commit that the work started from, "" in place; `work_dir` the folder from the
    repository's top, in place "."; `environment` the names of all
    variables that the test saw; `output_digest` the SHA-256 of all that it printed, first what went
    to stdout, then stderr; `counts` what its runner says of the tests, None where none is known;
    `cached` that an earlier wave ran it; `survivors` the processes, as `COMMAND (PID)`, that it
    left running and that were ended.
    """

    __test__ = False  # pytest collects classes by this name otherwise

    kind: RunKind
    command: str
    exit_code: int | None
    output: str
    duration_s: float
    tree: str | None = None
    output_file: str | None = None
    reason: str = ""
    purpose: str = PROOF
    base: str = ""
    work_dir: str = "."
    environment: tuple[str, ...] = ()
    sandbox: str = NO_SANDBOX
    output_digest: str | None = None
    counts: Counts | Doubt | None = None
    cached: bool = False
    survivors: tuple[str, ...] = ()

    @property
    def green(self) -> bool:
        """True only for exit code 0 on an unchanged tree."""
        return self.kind is RunKind.GREEN


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a proof was compared with. A note says why there is no such run.

    `reverted` is the test of the base with this work's own tests; `canary_word` what the run with a
    planted failing test said, None where it was not asked; `flaky` that one tree had different
    answers; `without_added` is the test of the work without the tests that it adds.
    """

    baseline: TestRun | None = None
    baseline_note: str = ""
    reverted: TestRun | None = None
    without_added: TestRun | None = None
    canaries: tuple[TestRun, ...] = ()
    canary_word: str | None = None
    canary_note: str = ""
    spot_checks: tuple[TestRun, ...] = ()
    flaky: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One dispatch of an item and what became of it; `phase` is BUILD or REPAIR.

    `survivors` are the processes that its agent left running, which is no fault of the work;
    `prompt_hash` is of what its agent was told, None where this run has told nobody anything;
    `final` work is not repaired, whatever its verdict.
    """

    number: int
    phase: str
    verdict: Verdict
    reason: str = ""
    worker_id: str | None = None
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    duration_s: float = 0.0
    tree: str | None = None
    changes: tuple[Change, ...] = ()
    test: TestRun | None = None
    evidence: Evidence = field(default_factory=Evidence)
    survivors: tuple[str, ...] = ()
    final: bool = False
    prompt_hash: str | None = None

    @property
    def receipts(self) -> tuple[TestRun, ...]:
        """Every test run that the verdict rests on, in the order in which they are asked for."""
        found = self.evidence
        checks = (*found.canaries, *found.spot_checks)
        runs = (found.baseline, self.test, found.reverted, found.without_added, *checks)
        return tuple(run for run in runs if run is not None)


@dataclass(frozen=True, slots=True)
class ItemOutcome:
    """Where an item stands. `tree` is the proven tree, base plus this item's files.

    `resumed` work was done by an earlier run; `shipped_as` is its commit when it was shipped too;
    `together` are the runs of its test on trees that hold other items as well; `reviews` every
    look that somebody took at it; `phases` what each phase of its pipeline did. An approval of
    `approved_tree` counts for `tree` too, which differs from it in the paths `after_approval` only;
    what is not to be published stays where it is, verified or not.
    """

    slug: str
    verdict: Verdict
    reason: str = ""
    attempts: tuple[Attempt, ...] = ()
    tree: str | None = None
    changes: tuple[Change, ...] = ()
    isolation: str = "clone"
    resumed: bool = False
    shipped_as: str | None = None
    together: tuple[TestRun, ...] = ()
    reviews: tuple[Review, ...] = ()
    phases: tuple[PhaseReceipt, ...] = ()
    approved_tree: str | None = None
    after_approval: tuple[str, ...] = ()
    publish: bool = True

    @property
    def repairs(self) -> int:
        """Rounds after the first; a round that never ran is not one."""
        return max(0, len(self.attempts) - 1)

    @property
    def last_test(self) -> TestRun | None:
        """The newest test run of this item, if any ran."""
        return next((a.test for a in reversed(self.attempts) if a.test is not None), None)

    @property
    def evidence(self) -> Evidence:
        """What the newest attempt was compared with."""
        return self.attempts[-1].evidence if self.attempts else Evidence()


@dataclass(frozen=True, slots=True)
class Shipment:
    """What became of one repository's verified items.

    `commits` holds (slug, commit) of all shipped items, `trees` (slug, its tree); `error` is a word
    of the report's vocabulary with `detail` as its sentence, and then nothing of this repository
    counts as shipped;
    `push_error` is the word of `push_answer.PushResult` for a push that was refused;
    `kept` is the commit that `branch` then holds in this repository only. `left_out` are items
    that were verified alone, with the verdict they have beside the others; `together` holds
    (slug, test runs) on the line of the others. `onto` is the commit that the line stands on;
    `integration` are all test runs on trees of several items, on so many trees.
    """

    repo: str
    branch: str | None = None
    commits: tuple[tuple[str, str], ...] = ()
    committed: bool = False
    pushed: bool = False
    files_count: int = 0
    error: str | None = None
    detail: str = ""
    warning: str | None = None
    kept: str | None = None
    left_out: tuple[ItemOutcome, ...] = ()
    together: tuple[tuple[str, tuple[TestRun, ...]], ...] = ()
    onto: str | None = None
    integration: tuple[TestRun, ...] = ()
    integration_runs: int = 0
    push_error: str | None = None
    trees: tuple[tuple[str, str], ...] = ()

    @property
    def tip(self) -> str | None:
        """The last commit of the line."""
        return self.commits[-1][1] if self.commits else None
