"""Assesses proven work: compares the proof with the base, and tests it with more runs."""

from __future__ import annotations

from dataclasses import replace

from driver.domain.results import (
    BASELINE,
    SPOT_CHECK,
    Evidence,
    RunKind,
    TestRun,
    Verdict,
)
from driver.execution.worker_pool import BackgroundTask
from driver.policy import acceptance
from driver.policy.findings import decide
from driver.policy.judgement import Judgement
from driver.policy.test_files import is_test
from driver.runners.canary import CanaryVerdict
from driver.terminal.safe_text import describe_run
from driver.verification.added_tests import run_without_added
from driver.verification.canary_run import run_canary
from driver.verification.test_run import ProvenWork, prove

_RERUN_AGAIN = (RunKind.RED, RunKind.TIMED_OUT, RunKind.KILLED)


def assess(work: ProvenWork) -> tuple[Judgement, Evidence]:
    """The verdict of proven work, and the evidence for it. Raises WorkspaceError."""
    item, proof = work.item, work.proof
    verify, allowance = item.wave.settings.verify, item.spec.allowance
    found = item.wave.baselines.of(item)
    judgement = acceptance.of_proof(proof, found.baseline)
    if judgement.verdict is not Verdict.VERIFIED:
        return judgement, found
    if objection := acceptance.of_counts(proof, found.baseline, allowance):
        return objection, found
    found = replace(found, reverted=_reverted(work, found.baseline))
    owns_tests = any(one.is_dir or is_test(one.path) for one in item.planned.owned)
    objection = acceptance.of_baseline(
        found.baseline,
        item.spec.baseline,
        verify.red_first,
        reverted=found.reverted,
        may_write_tests=owns_tests,
    )
    if objection:
        return objection, found
    found = _with_further_runs(work, found)
    flaky = acceptance.of_spot_checks(found.spot_checks, verify.flake_policy)
    added = decide(found.findings)
    canary = acceptance.of_canary(found.canary_word, found.canary_note)
    return added or canary or flaky or judgement, found


def _reverted(work: ProvenWork, baseline: TestRun | None) -> TestRun | None:
    """A run on the base with the work's own tests. It must be red if the base is green as well."""
    item = work.item
    policy, expected = item.wave.settings.verify.red_first, item.spec.baseline
    named = item.protection.named_tests()
    tests = [one for one in work.changes if is_test(one.path) or named.holds(one.path)]
    if not tests or not acceptance.needs_revert(baseline, expected, policy):
        return None
    tree = item.workspace.base_with(tests)
    return prove(item, tree, f"reverted-{work.number}", BASELINE)


def _with_further_runs(work: ProvenWork, found: Evidence) -> Evidence:
    """The evidence with the canary run, the run without added tests and the spot check. They run
    concurrently: with enough cores they take no longer than one run."""
    item, proof = work.item, work.proof
    canary = BackgroundTask(lambda: run_canary(work))
    without_added = BackgroundTask(lambda: run_without_added(work, found))
    frac = item.planned.policy.spot_check_frac
    try:
        is_chosen = acceptance.is_chosen(item.wave.wave_id, item.slug, frac)
        checks = _rerun(work) if is_chosen else ()
    finally:  # both use the item's workspace, which is deleted with the item
        by_canary, without = canary.result(), without_added.result()
    says_nothing = by_canary.canary_word == CanaryVerdict.UNDECIDED
    if not checks and (says_nothing or acceptance.is_doubted(proof, by_canary.canaries)):
        checks = _rerun(work)
    return replace(
        found,
        without_added=without.without_added,
        spot_checks=checks,
        flaky=len(checks) > 1,
        canaries=by_canary.canaries,
        canary_word=by_canary.canary_word,
        canary_note=by_canary.canary_note,
        findings=(*found.findings, *without.findings),
    )


def _rerun(work: ProvenWork) -> tuple[TestRun, ...]:
    """Run the test again, and once more if it is not green then. Never in place."""
    if work.proof.tree is None:
        return ()
    runs = list[TestRun]()
    for label in (f"spot-check-{work.number}", f"spot-check-{work.number}-again"):
        run = prove(work.item, work.proof.tree, label, SPOT_CHECK, fresh=True)
        work.item.say(f"spot check {describe_run(run.kind, run.duration_s)}")
        runs.append(run)
        if run.kind not in _RERUN_AGAIN:
            break
    return tuple(runs)
