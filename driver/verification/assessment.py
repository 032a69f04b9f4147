"""What a proof is compared with before it counts: the base, a spot check, a planted failure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from driver.domain.results import BASELINE, Change, Evidence, TestRun, Verdict
from driver.execution.worker_pool import BackgroundTask
from driver.policy import acceptance as belief
from driver.policy.judgement import Judgement
from driver.policy.test_files import is_test
from driver.run_state.context import ItemRun
from driver.runners.canary import CanaryVerdict
from driver.verification.canary_run import Field, run_canary
from driver.verification.reruns import rerun, spot_check, without_added_tests
from driver.verification.test_run import TestRequest, prove


@dataclass(frozen=True, slots=True)
class Assessment:
    """The item's work so far: its changes, and its test on the tree that has them."""

    number: int
    changes: tuple[Change, ...]
    proof: TestRun


def assess(item: ItemRun, work: Assessment) -> tuple[Judgement, Evidence]:
    """The verdict of proven work, and what it rests on. Raises WorkspaceError."""
    found = item.wave.baselines.of(item)
    judgement = belief.of_proof(work.proof, found.baseline)
    if judgement.verdict is not Verdict.VERIFIED:
        return judgement, found
    if objection := belief.of_counts(work.proof, found.baseline, item.spec.allowance):
        return objection, found
    found = replace(found, reverted=_reverted(item, work, found.baseline))
    if objection := _shows_nothing(item, found):
        return objection, found
    found = _run_again(item, work, found)
    flaky = belief.of_spot_checks(found.spot_checks, item.wave.settings.verify.flake_policy)
    allowance = item.spec.allowance
    added = belief.of_added_tests(found.without_added, found.baseline, allowance)
    canary = belief.of_canary(found.canary_word, found.canary_note)
    return added or canary or flaky or judgement, found


def _run_again(item: ItemRun, work: Assessment, found: Evidence) -> Evidence:
    """With a failing test planted, without the tests it adds and as it is, beside each other: no
    longer than one run where there are cores for them."""
    field = Field(item, work.changes, work.proof, work.number)
    planting = BackgroundTask(lambda: run_canary(field))
    leaving_out = BackgroundTask(lambda: without_added_tests(field, found.baseline))
    try:
        checks = spot_check(item, work.proof.tree, work.number)
    finally:  # they work in the item's place, which goes with the item
        planted, without = planting.result(), leaving_out.result()
    says_nothing = planted.canary_word == CanaryVerdict.UNDECIDED
    if not checks and (says_nothing or belief.is_doubted(work.proof, planted.canaries)):
        checks = rerun(item, work.proof.tree, work.number)
    return replace(
        found,
        without_added=without,
        spot_checks=checks,
        flaky=len(checks) > 1,
        canaries=planted.canaries,
        canary_word=planted.canary_word,
        canary_note=planted.canary_note,
    )


def _shows_nothing(item: ItemRun, found: Evidence) -> Judgement | None:
    return belief.of_baseline(
        found.baseline,
        item.spec.baseline,
        item.wave.settings.verify.red_first,
        reverted=found.reverted,
        may_write_tests=may_write_tests(item),
    )


def may_write_tests(item: ItemRun) -> bool:
    """Whether the item owns a test, or a folder that may get one."""
    return any(entry.is_dir or is_test(entry.path) for entry in item.planned.owned)


def _reverted(
    item: ItemRun,
    work: Assessment,
    baseline: TestRun | None,
) -> TestRun | None:
    """The base with this work's own tests, where the test alone is no witness; they must be red."""
    policy, expected = item.wave.settings.verify.red_first, item.spec.baseline
    named = item.protection.named_tests()
    tests = [one for one in work.changes if is_test(one.path) or named.holds(one.path)]
    if not tests or not belief.needs_revert(baseline, expected, policy):
        return None
    tree = item.checkouts.base_with(tests)
    return prove(item, tree, TestRequest(f"reverted-{work.number}", BASELINE))
