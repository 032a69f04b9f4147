"""Results of items as frozen data: changes, test runs, attempts, verdicts. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from driver.backend_api.driver import Usage
from driver.domain.findings import Finding, Grade
from driver.domain.phase_receipt import PhaseReceipt
from driver.domain.reviews import Review
from driver.runners.result import Counts, Doubt, counts_from_json
from state_store.database import events
from state_store.values.lazy_dataclass import dataclass, field

BUILD = "build"
REPAIR = "repair"
RESUME = "resume"  # no dispatch: the work is from an earlier run
REVIEW = events.REVIEW

# Purposes of a test run.
BASELINE = "baseline"
PROOF = "proof"
SPOT_CHECK = "spot_check"
CANARY = "canary"
WITHOUT_ADDED_TESTS = "without_added_tests"
INTEGRATION = "integration"
GATE = "gate"  # a command of a pipeline's gate

NO_SANDBOX = "none"
WITHOUT_WALLS = (NO_SANDBOX, "limits")  # a test inside reaches all that it reaches outside
NO_RERUN = "no second run gave the same results"

# Git's modes, in changes and recordings.
MODE_FILE = "100644"
MODE_PROGRAM = "100755"
MODE_LINK = "120000"
MODE_NESTED = "160000"  # another repository; it cannot be shipped or recorded


class Verdict(StrEnum):
    """The verdict of Tidegate on an item. It never depends on the agent's words."""

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
# Verdicts without blame: another run holds or has shipped the item, or the user withdrew it.
NOT_AT_FAULT = frozenset({Verdict.LEASED_ELSEWHERE, Verdict.SHIPPED_ELSEWHERE, Verdict.WITHDRAWN})


@dataclass(frozen=True, slots=True)
class Change:
    """A path that differs from the base commit, read from git objects, never from an agent's reply.

    `path` is relative to the repository, with `/`. `mode` is the new mode, None for a deletion.
    `blob` is the new object id, `base_blob` the old id if known. A rename is a deletion and an
    addition.
    """

    path: str
    mode: str | None
    blob: str | None
    base_mode: str | None
    base_blob: str | None = field(default=None, compare=False)

    @property
    def deleted(self) -> bool:
        """True if the path exists on the base only."""
        return self.mode is None

    @property
    def moves_submodule(self) -> bool:
        """True if a submodule has another commit. A nested repository of any other kind has an id
        that is no commit."""
        known = bool(self.blob) and set(self.blob or "") != {"f"}
        return self.mode == self.base_mode == MODE_NESTED and known


class RunKind(StrEnum):
    """The end of a test command. RED, TIMED_OUT and mostly KILLED are faults of the work."""

    GREEN = "green"
    RED = "red"
    TIMED_OUT = "timed_out"
    KILLED = "killed"  # by a signal; at a limit of memory, disk and the like without an exit code
    COULD_NOT_RUN = "could_not_run"
    CANCELLED = "cancelled"


TestName = tuple[str, str]  # the work folder and the text of a test command


@dataclass(frozen=True, slots=True)
class TestRun:
    """A run of a test command on one git tree, and its receipt.

    `tree` is None in place. `base` is the commit that the work started from, "" in place.
    `work_dir` is relative to the repository's top. `environment` has the names of the test's
    variables. `output_digest` is the SHA-256 of stdout, then stderr. `counts` is the runner's
    summary, None if unknown. `survivors` are processes that the test left running, as `COMMAND
    (PID)`; Tidegate ended them. `tampered` are tracked files that the test changed.
    `failing` are the red tests, in the runner's spelling; `known_red` are those of a green run.
    `beside` are the tests that ran at the same time; it is not in the receipt.
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
    survivors: tuple[str, ...] = ()
    tampered: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    known_red: tuple[str, ...] = ()
    beside: frozenset[TestName] = field(default=frozenset(), compare=False)

    @property
    def green(self) -> bool:
        """True for exit code 0 on an unchanged tree."""
        return self.kind is RunKind.GREEN

    def to_json(self) -> dict[str, Any]:
        """The receipt of the run."""
        return {
            "purpose": self.purpose,
            "kind": str(self.kind),
            "command": self.command,
            "exit": self.exit_code,
            "reason": self.reason or None,
            "durationS": round(self.duration_s, 3),
            "base": self.base or None,
            "tree": self.tree,
            "workDir": self.work_dir,
            "environment": list(self.environment),
            "sandbox": self.sandbox,
            "outputFile": self.output_file,
            "outputDigest": self.output_digest,
            "counts": self.counts.to_json() if self.counts else None,
            "cached": False,  # for readers of older reports: no run is reused from an earlier wave
            "survivors": list(self.survivors),
            "tampered": list(self.tampered),
            "failing": list(self.failing),
            "knownRed": list(self.known_red),
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> TestRun | None:
        """The run from its receipt, without its output; None for a malformed receipt."""
        try:
            return cls(
                kind=RunKind(record["kind"]),
                command=str(record["command"]),
                exit_code=record["exit"],
                output="",
                duration_s=float(record["durationS"]),
                tree=record["tree"],
                output_file=record["outputFile"],
                reason=record["reason"] or "",
                purpose=str(record["purpose"]),
                base=record["base"] or "",
                work_dir=str(record["workDir"]),
                environment=tuple(record["environment"]),
                sandbox=str(record["sandbox"]),
                output_digest=record["outputDigest"],
                counts=counts_from_json(record["counts"]),
                survivors=tuple(record.get("survivors") or ()),
                tampered=tuple(record.get("tampered") or ()),
                failing=tuple(record.get("failing") or ()),
                known_red=tuple(record.get("knownRed") or ()),
            )
        except (KeyError, TypeError, ValueError):
            return None


def receipts_in(record: object) -> list[TestRun]:
    """The runs in a list of receipts, without malformed entries."""
    entries = record if isinstance(record, list) else []
    found = (TestRun.from_json(one) for one in entries if isinstance(one, Mapping))
    return [run for run in found if run is not None]


def receipts_of_evidence(record: object) -> list[TestRun]:
    """The runs in a verdict's `evidence`."""
    return receipts_in(record.get("receipts")) if isinstance(record, Mapping) else []


@dataclass(frozen=True, slots=True)
class Evidence:
    """The runs that a proof is compared with. A note gives the reason for a missing run.

    `reverted` is the base with the work's own tests. `without_added` is the work without the tests
    that it adds. `canary_word` is the result with a canary test, None without such a run; with
    `canary_is_check` this run is the item's spot check as well. `flaky` means that one tree gave
    different results. `findings` are the objections of all checks. `grade` is set for verified
    work, and `lacks` is what its evidence lacks for grade A.
    """

    baseline: TestRun | None = None
    baseline_note: str = ""
    reverted: TestRun | None = None
    without_added: tuple[TestRun, ...] = ()
    canaries: tuple[TestRun, ...] = ()
    canary_word: str | None = None
    canary_note: str = ""
    canary_is_check: bool = False
    spot_checks: tuple[TestRun, ...] = ()
    flaky: bool = False
    findings: tuple[Finding, ...] = ()
    grade: Grade | None = None
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """A dispatch of an item and its result; `phase` is BUILD or REPAIR.

    `survivors` are processes that the agent left running; they do not count against the work.
    `notes` are sentences about what is no part of the work and does not count against it either.
    `prompt_hash` is the hash of the agent's prompt, None if this run dispatched no agent. `final`
    work is not repaired, whatever its verdict. Work that `waits` is kept until a person has decided
    about it.
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
    waits: bool = False
    notes: tuple[str, ...] = ()
    prompt_hash: str | None = None

    @property
    def receipts(self) -> tuple[TestRun, ...]:
        """Every test run behind the verdict, in the order in which they ran."""
        found = self.evidence
        checks = (*found.canaries, *found.spot_checks)
        runs = (found.baseline, self.test, found.reverted, *found.without_added, *checks)
        return tuple(run for run in runs if run is not None)

    def evidence_json(self) -> dict[str, Any]:
        """The JSON form of the evidence for the verdict."""
        found = self.evidence
        return {
            "baseline": str(found.baseline.kind) if found.baseline else None,
            "baselineNote": found.baseline_note or None,
            "canary": found.canary_word,
            "canaryNote": found.canary_note or None,
            "spotChecked": found.canary_is_check or bool(found.spot_checks),
            "flaky": found.flaky,
            "grade": str(found.grade) if found.grade else None,
            "lacks": list(found.lacks),
            "doubts": [one.to_json() for one in found.findings],
            "receipts": [run.to_json() for run in self.receipts],
        }


@dataclass(frozen=True, slots=True)
class ItemOutcome:
    """The state of an item.

    `tree` is the proven tree: the base with this item's files. `resumed` work is from an earlier
    run; `shipped_as` is its commit if the earlier run shipped it. `batch_runs` are runs of its test
    on trees with other items. An approval of `approved_tree` also counts for `tree`: only the paths
    in `after_approval` differ. Without `publish` the work stays in its workspace, verified or not.
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
    batch_runs: tuple[TestRun, ...] = ()
    reviews: tuple[Review, ...] = ()
    phases: tuple[PhaseReceipt, ...] = ()
    approved_tree: str | None = None
    after_approval: tuple[str, ...] = ()
    publish: bool = True

    @property
    def repairs(self) -> int:
        """The number of rounds after the first. A round that never ran does not count."""
        return max(0, len(self.attempts) - 1)

    @property
    def last_test(self) -> TestRun | None:
        """The newest test run of this item, if any ran."""
        return next((a.test for a in reversed(self.attempts) if a.test is not None), None)

    @property
    def evidence(self) -> Evidence:
        """The evidence of the newest attempt."""
        return self.attempts[-1].evidence if self.attempts else Evidence()

    @property
    def grade(self) -> Grade | None:
        """The grade of the evidence; a green run together with other items counts as a rerun."""
        found = self.evidence
        if found.grade is Grade.B and found.lacks and not self.lacks:
            return Grade.B if found.findings else Grade.A
        return found.grade

    @property
    def lacks(self) -> tuple[str, ...]:
        """The gaps of the evidence. A green run together with other items is a rerun."""
        is_rerun = any(run.green for run in self.batch_runs)
        return tuple(one for one in self.evidence.lacks if not (is_rerun and one == NO_RERUN))

    @property
    def waits(self) -> bool:
        """True if a person has to decide about the work before an agent is asked again."""
        return self.verdict is Verdict.UNDECIDED and bool(self.attempts) and self.attempts[-1].waits
