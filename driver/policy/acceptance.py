"""The rules for accepting a green test, by comparison with the base, a rerun and the canary. Pure.
Most return findings, of which `driver.policy.findings` makes a verdict."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace

from driver.domain.findings import Finding, FindingKind
from driver.domain.results import Change, RunKind, TestRun, Verdict
from driver.policy.count_rules import judge_counts
from driver.policy.judgement import LEFT_RUNNING, NO_ANSWER, Judgement, named, of_test
from driver.policy.known_red import names_change, red_before, sentence
from driver.runners.canary import CanaryVerdict
from driver.runners.result import Counts
from state_store.values.lazy_pattern import lazy_pattern

REQUIRE = "require"
GREEN_BASE = "green"  # the value in an item whose test is green on the base already
ALLOW = "allow"
# Words of pip, uv, tox, npm, go, cargo and git about packages that they could not get.
_NOT_FETCHED = lazy_pattern(
    r"failed to (?:fetch|download)|could not (?:fetch|install deps|find a version|resolve host)"
    r"|no matching distribution found|certificate verify failed|invalid peer certificate"
    r"|temporary failure in name resolution|npm err(?:or|!) (?:network|code E(?:NOTFOUND|AI_AGAIN))"
    r"|dial tcp: lookup|spurious network error",
    re.IGNORECASE,
)
_TESTS_FAILED = (1, 101)  # the exit codes of runners for red tests; 101 is cargo's
_COVERAGE = "coverage"
_LIMIT_AFTER = ("threshold", "limit", "required", "fail", "not met", "below")
_LIMIT_BEFORE = _LIMIT_AFTER[:4]
# The names of the checks.
RED_FIRST = "red first"
CANARY = "canary"


def of_proof(proof: TestRun, baseline: TestRun | None, changes: Sequence[Change] = ()) -> Judgement:
    """The verdict of a proof. A red proof is called a regression if the base is green. Traces that
    the test leaves on the base as well are no fault of the work, and neither are tests that are red
    there as well, if nothing in the output names a changed file, nor packages that cannot be
    fetched there either."""
    judgement = of_test(proof)
    if proof.kind is RunKind.RED and proof.exit_code == 0 and baseline is not None:
        left = LEFT_RUNNING in proof.reason
        if {*proof.tampered} <= {*baseline.tampered} and bool(baseline.survivors) >= left:
            ends = "end its processes in the test, or allow them ([verify] survivors)"
            remedy = ends if left else "let the test write to files that git does not track"
            why = f"{proof.reason}; its test does so on the base as well: {remedy}"
            return Judgement(Verdict.UNDECIDED, why, waits=True)
    if judgement.verdict is not Verdict.FAILED or baseline is None:
        return judgement
    if _is_over_limit(proof) and _is_over_limit(baseline):
        why = f"{proof.reason}; so it does on the base: raise the limit"
        return Judgement(Verdict.UNDECIDED, why, waits=True)
    return _of_red(judgement, proof, baseline, changes)


def _is_over_limit(run: TestRun) -> bool:
    """True if a limit of memory, disk and the like ended the run: a signal has an exit code."""
    return run.kind is RunKind.KILLED and run.exit_code is None


def _of_red(
    judgement: Judgement, proof: TestRun, baseline: TestRun, changes: Sequence[Change]
) -> Judgement:
    """The verdict of a red proof beside its baseline."""
    if _fetched_nothing(proof) and _fetched_nothing(baseline):
        why = f"{judgement.reason}; no test ran, as on the base: packages could not be fetched"
        return Judgement(Verdict.UNDECIDED, f"{why}: check the network of the test command")
    same, new = red_before(proof, baseline)
    if same and not new and not names_change(proof, changes):
        [tests] = named("red on the base as well: ", same)
        remedy = "name these tests in [verify] known_red, or give the item a test of its own"
        why = f"{judgement.reason}; {tests}: {remedy}"
        return Judgement(Verdict.UNDECIDED, why, waits=True)
    if same:
        return replace(judgement, reason=f"{judgement.reason}; {sentence(same, new)}")
    if not passes(baseline):
        return judgement
    return replace(judgement, reason=f"{judgement.reason}; it is green on the base: a regression")


def _fetched_nothing(run: TestRun) -> bool:
    """True for a red run that ended before any test, because packages could not be fetched."""
    return not run.green and run.counts is None and bool(_NOT_FETCHED.search(run.output))


def passes(run: TestRun | None) -> bool:
    """True for a green run, unless its counts show that no test ran."""
    return run is not None and run.green and judge_counts(run.counts, None) is None


def of_no_change(judgement: Judgement, baseline: TestRun | None, expected: str | None) -> Judgement:
    """ALREADY_GREEN in place of `judgement` if the base needs no change."""
    if not passes(baseline) or expected == GREEN_BASE:
        return judgement
    why = "nothing was changed, and the test is green on the base already"
    return Judgement(Verdict.ALREADY_GREEN, why)


def needs_revert(baseline: TestRun | None, expected: str | None, policy: str) -> bool:
    """True if the work's own tests must be red without the work."""
    return policy == REQUIRE and expected != GREEN_BASE and passes(baseline)


def of_baseline(
    baseline: TestRun | None,
    expected: str | None,
    policy: str,
    *,
    reverted: TestRun | None = None,
    may_write_tests: bool = False,
) -> tuple[Finding, ...]:
    """Rejects a green test that proves nothing because it is also green on the base. A base that
    could not be tested stops no item. `reverted` is the test of the base with the work's own tests.
    A repair can help only if the item may write tests."""
    if policy != REQUIRE or baseline is None or baseline.kind in NO_ANSWER:
        return ()
    if expected == GREEN_BASE:
        why = f'the item says "baseline": "green", but on the base: {baseline.reason}'
        unlike = Finding(RED_FIRST, FindingKind.OFFENCE, why, by_agent=False)
        return () if baseline.green else (unlike,)
    if not passes(baseline) or (reverted is not None and not passes(reverted)):
        return ()
    why = "the test is green without the change as well, so it does not prove the change"
    remedy = "add a test that is red without the change"
    if not may_write_tests:
        why = f"{why} ([verify] red_first)"
        remedy = 'give the item a test that is red first, or set "baseline": "green"'
    return (Finding(RED_FIRST, FindingKind.OFFENCE, why, remedy, by_agent=may_write_tests),)


def of_canary(word: str | None, note: str, *, on_base: bool | None = False) -> tuple[Finding, ...]:
    """The finding on a green that the canary cannot turn red. `on_base` tells if the canary passes
    on the base as well. A canary without a result stops no item."""
    if word == CanaryVerdict.ELSEWHERE:
        remedy = "remove the installed package that hides it, or set the import path in the test"
        return (Finding(CANARY, FindingKind.OFFENCE, note, remedy, by_agent=False),)
    if word == CanaryVerdict.GREEN:
        why = f"canary passed: {note}"
        return (Finding(CANARY, FindingKind.DOUBT, why, on_base=on_base, names_change=True),)
    if word in (CanaryVerdict.UNSEEN, CanaryVerdict.UNDECIDED):
        why = f"the canary test gave no answer: {note}"
        return (Finding(CANARY, FindingKind.DOUBT, why, on_base=on_base),)
    return ()


def is_chosen(wave_id: str, slug: str, share: float) -> bool:
    """True for the given share of all items, whose tests run again. No name can avoid it."""
    lot = hashlib.sha256(f"{wave_id}\0{slug}".encode()).digest()[:8]
    return int.from_bytes(lot, "big") < share * 2**64


def is_doubted(proof: TestRun, canaries: Sequence[TestRun]) -> bool:
    """True if tests of the green proof are red in the canary run: they may be flaky. A single red
    test may be the canary itself, if a run stops at the first failure."""
    now = canaries[0].counts if canaries else None
    if not isinstance(now, Counts) or not isinstance(proof.counts, Counts):
        return False
    if now.ran < proof.counts.ran:  # the canary was selected, or the run stopped early
        return False
    return now.failed > 1 and now.passed < proof.counts.passed


def is_check_beside(proof: TestRun, canary: TestRun, planted: int) -> bool:
    """True if the run with `planted` canary tests is a rerun of the green proof: they alone are
    red, all other tests have the results of the proof, and the runner ended by itself."""
    before, now = proof.counts, canary.counts
    if not isinstance(before, Counts) or not isinstance(now, Counts) or proof.known_red:
        return False
    return (
        canary.tree == proof.tree
        and canary.exit_code in _TESTS_FAILED
        and not canary.survivors
        and now.failed == planted
        and (now.passed, now.skipped) == (before.passed, before.skipped)
    )


def names_limit(output: str) -> bool:
    """True if a run tells of a limit of coverage, which makes its exit code red as well."""
    return any(
        any(word in line.partition(_COVERAGE)[2] for word in _LIMIT_AFTER)
        or any(word in line.rpartition(_COVERAGE)[0] for word in _LIMIT_BEFORE)
        for line in output.lower().split("\n")
    )


def of_spot_checks(
    checks: Sequence[TestRun], policy: str, *, on_base: bool = False
) -> Judgement | None:
    """The judgement of reruns on the tree of a green proof; None if they are green. `on_base` is
    true if the test gives different answers on the base as well."""
    silent = next((run for run in checks if run.kind in NO_ANSWER), None)
    if all(run.green for run in checks if run.kind not in NO_ANSWER):
        return of_test(silent) if silent is not None else None
    kinds = [f"{run.kind} ({run.reason})" if run.reason else run.kind for run in checks]
    reason = f"different answers for one tree: green, then {', then '.join(kinds)}"
    if policy == ALLOW:
        return Judgement(Verdict.VERIFIED, f"flaky, but allowed by the settings: {reason}")
    if on_base:
        remedy = 'make the test stable, or allow it ([verify] flake_policy = "allow")'
        why = f"{reason}; its test does so on the base as well: {remedy}"
        return Judgement(Verdict.UNDECIDED, why, waits=True)
    return Judgement(Verdict.FLAKY, reason)
