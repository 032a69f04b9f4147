"""The rules for accepting a green test, by comparison with the base, a rerun and the canary. Pure
decisions. Each returns a Judgement that ends the attempt, or None to go on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from driver.domain.results import RunKind, TestRun, Verdict
from driver.policy.judgement import Judgement, of_test
from driver.runners.canary import CanaryVerdict
from driver.runners.counts import Allowance, Counts, Doubt, judge_counts
from driver.runners.result import MISSING

REQUIRE = "require"
GREEN_BASE = "green"  # the value in an item whose test is green on the base already
ALLOW = "allow"

NO_ANSWER = (RunKind.COULD_NOT_RUN, RunKind.CANCELLED)


def of_proof(proof: TestRun, baseline: TestRun | None) -> Judgement:
    """The verdict of a proof. A red proof is called a regression if the base is green. Processes
    that the test also leaves running on the base are no fault of the work."""
    judgement = of_test(proof)
    left = proof.kind is RunKind.RED and proof.exit_code == 0 and proof.survivors
    if left and baseline is not None and baseline.survivors:
        remedy = "end its processes in the test, or allow them ([verify] survivors)"
        why = f"{proof.reason}; its test does so on the base as well: {remedy}"
        return Judgement(Verdict.UNDECIDED, why)
    if judgement.verdict is not Verdict.FAILED or not passes(baseline):
        return judgement
    return Judgement(
        judgement.verdict, f"{judgement.reason}; it is green on the base: a regression"
    )


def passes(run: TestRun | None) -> bool:
    """True for a green run, unless its counts show that no test ran."""
    return run is not None and run.green and judge_counts(run.counts, None) is None


def of_counts(proof: TestRun, baseline: TestRun | None, allowance: Allowance) -> Judgement | None:
    """Refuses a proof with fewer tests than the base, by the runner's summary."""
    problem = judge_counts(proof.counts, counts_before(baseline), allowance)
    return Judgement(Verdict.REFUSED, problem) if problem else None


def counts_before(baseline: TestRun | None) -> Counts | Doubt | None:
    """The counts of the base. A red base whose run broke off does not allow the proof to
    break off."""
    if baseline is None or baseline.kind in NO_ANSWER:
        return None
    broke_off = isinstance(baseline.counts, Doubt) and baseline.counts.reason == MISSING
    return None if broke_off and not baseline.green else baseline.counts


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
) -> Judgement | None:
    """Rejects a green test that proves nothing because it is also green on the base. A base that
    could not be tested stops no item. `reverted` is the test of the base with the work's own tests.
    A repair can help only if the item may write tests."""
    if policy != REQUIRE or baseline is None or baseline.kind in NO_ANSWER:
        return None
    if expected == GREEN_BASE:
        why = f'the item says "baseline": "green", but on the base: {baseline.reason}'
        return None if baseline.green else Judgement(Verdict.UNDECIDED, why)
    if not passes(baseline) or (reverted is not None and not passes(reverted)):
        return None
    why = "the test is green without the change as well, so it does not prove the change"
    if may_write_tests:
        return Judgement(Verdict.REFUSED, f"{why}: add a test that is red without the change")
    remedy = 'give the item a test that is red first, or set "baseline": "green"'
    return Judgement(Verdict.UNDECIDED, f"{why} ([verify] red_first): {remedy}")


def of_canary(word: str | None, note: str) -> Judgement | None:
    """Refuses a green that the canary cannot turn red. A canary without a result stops no item."""
    if word == CanaryVerdict.ELSEWHERE:
        remedy = "remove the installed package that hides it, or set the import path in the test"
        return Judgement(Verdict.UNDECIDED, f"{note}: {remedy}")
    if word != CanaryVerdict.GREEN:
        return None
    return Judgement(Verdict.REFUSED, f"canary passed: {note}")


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


def of_spot_checks(checks: Sequence[TestRun], policy: str) -> Judgement | None:
    """The judgement of reruns on the tree of a green proof; None if they are green."""
    silent = next((run for run in checks if run.kind in NO_ANSWER), None)
    if all(run.green for run in checks if run.kind not in NO_ANSWER):
        return of_test(silent) if silent is not None else None
    kinds = [f"{run.kind} ({run.reason})" if run.reason else run.kind for run in checks]
    reason = f"different answers for one tree: green, then {', then '.join(kinds)}"
    if policy == ALLOW:
        return Judgement(Verdict.VERIFIED, f"flaky, but allowed by the settings: {reason}")
    return Judgement(Verdict.FLAKY, reason)
