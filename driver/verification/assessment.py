"""Assesses proven work: compares the proof with the base, and tests it with more runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from driver.checkout_guard.installed import distribution_names, import_names
from driver.domain.findings import Finding, FindingKind, Grade
from driver.domain.results import (
    BASELINE,
    CANARY,
    MODE_NESTED,
    SPOT_CHECK,
    Evidence,
    RunKind,
    TestRun,
    Verdict,
)
from driver.execution.worker_pool import BackgroundTask
from driver.policy import acceptance, count_rules
from driver.policy.findings import decide
from driver.policy.grades import graded, is_rerun, of_grade
from driver.policy.installed_modules import may_name_dependencies, of_installed
from driver.policy.judgement import NO_ANSWER, Judgement
from driver.policy.test_files import is_test
from driver.python_imports.rules import of_output
from driver.runners.canary import CanaryVerdict
from driver.terminal.safe_text import describe_run
from driver.test_command.build_scripts import lines_run
from driver.test_style.reaching_code import reached
from driver.verification.added_tests import run_without_added
from driver.verification.alone import DISTURBED
from driver.verification.canary_run import Planted, may_be_check, run_canary
from driver.verification.test_run import ProvenWork, prove

_CODE = "code"
_RED_BESIDE = "tests that were green are red beside the canary test"
_READ = "read the work: code under test has little cause to do this"
_RERUN_AGAIN = (RunKind.RED, RunKind.TIMED_OUT, RunKind.KILLED)


def assess(
    work: ProvenWork, canary_beside: Callable[[], Planted | None] | None = None
) -> tuple[Judgement, Evidence]:
    """The verdict of proven work, and the evidence for it. `canary_beside` gives the canary run
    that took place beside the proof, if there was one. Raises WorkspaceError."""
    item, proof = work.item, work.proof
    verify = item.wave.settings.verify
    found = item.wave.baselines.of(item)
    judgement = acceptance.of_proof(proof, found.baseline, work.changes)
    if judgement.verdict is Verdict.FAILED and (why := _imported_elsewhere(work)):
        return Judgement(Verdict.UNDECIDED, f"{proof.reason}; {why}", waits=True), found
    if judgement.verdict is not Verdict.VERIFIED:
        return judgement, found
    further = partial(_with_further_runs, canary_beside=canary_beside)
    checks = (_with_counts, _with_reverted, further, _with_installed, _with_code)
    for check in checks:
        found = check(work, found)
        if objection := decide(found.findings):
            return objection, found
    if objection := _of_reruns(work, found):
        return objection, found
    found = graded(proof, found)
    return of_grade(found, verify.min_grade) or judgement, found


def _imported_elsewhere(work: ProvenWork) -> str:
    """The sentence about a changed module that a red test imported from another checkout."""
    if work.item.repository is None:
        return ""
    changed = [change.path for change in work.changes if change.path.endswith(".py")]
    top = work.item.repository.repository.top.as_posix()
    return of_output(work.proof.output, changed, top)


def _with_counts(work: ProvenWork, found: Evidence) -> Evidence:
    """The evidence with the findings on the proof's counts."""
    item = work.item
    command = item.spec.test_command
    run = (line for line, _ in lines_run(command, item.work_dir, item.context.text))
    lines = (command, *run)
    findings = count_rules.of_counts(
        work.proof,
        found.baseline,
        item.spec.allowance,
        may_be_silent=count_rules.may_be_silent(lines),
        may_repeat=count_rules.may_repeat(lines),
    )
    return replace(found, findings=(*found.findings, *findings))


def _of_reruns(work: ProvenWork, found: Evidence) -> Judgement | None:
    """The judgement of the reruns. Before a different answer is held against the work, the base is
    asked for its answer again."""
    policy, checks = work.item.wave.settings.verify.flake_policy, found.spot_checks
    judgement = acceptance.of_spot_checks(checks, policy)
    if judgement is None or judgement.verdict is not Verdict.FLAKY:
        return judgement
    return acceptance.of_spot_checks(checks, policy, on_base=_base_changes(work, found.baseline))


def _base_changes(work: ProvenWork, baseline: TestRun | None) -> bool:
    """True if the test gives different answers on the base as well."""
    tree = work.item.workspace.base_with(())
    if baseline is None or tree is None:
        return False
    for label in (f"base-check-{work.number}", f"base-check-{work.number}-again"):
        run = prove(work.item, tree, label, BASELINE, fresh=True)
        if run.kind in NO_ANSWER:
            return False
        if run.green is not baseline.green:
            return True
    return False


def _with_reverted(work: ProvenWork, found: Evidence) -> Evidence:
    """The evidence with a run on the base with the work's own tests. It must be red if the base is
    green as well."""
    item, verify = work.item, work.item.wave.settings.verify
    policy, expected = verify.red_first, item.spec.baseline
    named = item.protection.named_tests()
    tests = [one for one in work.changes if is_test(one.path) or named.holds(one.path)]
    # Grade A needs a test that was red first.
    asked = acceptance.REQUIRE if verify.min_grade == Grade.A else policy
    if tests and acceptance.needs_revert(found.baseline, expected, asked):
        tree = item.workspace.base_with(tests)
        found = replace(found, reverted=prove(item, tree, f"reverted-{work.number}", BASELINE))
    findings = acceptance.of_baseline(
        found.baseline,
        expected,
        policy,
        reverted=found.reverted,
        may_write_tests=any(one.is_dir or is_test(one.path) for one in item.planned.owned),
    )
    return replace(found, findings=(*found.findings, *findings))


def _with_further_runs(
    work: ProvenWork,
    found: Evidence,
    canary_beside: Callable[[], Planted | None] | None = None,
) -> Evidence:
    """The evidence with the canary run, the run without added tests and the spot check. They run
    concurrently: with enough cores they take no longer than one run. A canary run that may be the
    spot check as well is asked first."""
    item, proof = work.item, work.proof
    frac = item.planned.policy.spot_check_frac
    is_chosen = acceptance.is_chosen(item.wave.wave_id, item.slug, frac)
    as_check = is_chosen and proof.reason != DISTURBED and may_be_check(work)
    canary = BackgroundTask(lambda: run_canary(work, as_check=as_check, beside=canary_beside))
    without_added = BackgroundTask(lambda: run_without_added(work, found))
    try:
        at_once = proof.reason == DISTURBED or (is_chosen and not as_check)
        checks = _rerun(work) if at_once else ()
    finally:  # both use the item's workspace, which is deleted with the item
        by_canary, without = canary.result(), without_added.result()
    is_due = (
        (as_check and not by_canary.canary_is_check)
        or by_canary.canary_word == CanaryVerdict.UNDECIDED
        or (item.wave.settings.verify.min_grade == Grade.A and not is_rerun(proof, by_canary))
    )
    doubted = acceptance.is_doubted(proof, by_canary.canaries)
    if not checks and (is_due or doubted):
        checks = _rerun(work)
    on_canary = acceptance.of_canary(by_canary.canary_word, by_canary.canary_note)
    if doubted:
        on_canary = (*on_canary, Finding(CANARY, FindingKind.DOUBT, _RED_BESIDE, _READ))
    return replace(
        found,
        findings=(*found.findings, *without.findings, *by_canary.findings, *on_canary),
        without_added=without.without_added,
        spot_checks=checks,
        flaky=len(checks) > 1,
        canaries=by_canary.canaries,
        canary_word=by_canary.canary_word,
        canary_note=by_canary.canary_note,
        canary_is_check=by_canary.canary_is_check,
    )


def _with_installed(work: ProvenWork, found: Evidence) -> Evidence:
    """The evidence with the finding on Python modules that were installed meanwhile."""
    item, guard = work.item, work.item.context.checkout_guard
    paths = guard.installed() if guard else ()
    if not paths:
        return found
    texts = {
        change.path: item.workspace.contents(change).decode("utf-8", "replace")
        for change in work.changes
        if not change.deleted and change.mode != MODE_NESTED
    }
    base = (item.context.text(path) for path in item.context.paths if may_name_dependencies(path))
    changed = (text for path, text in texts.items() if may_name_dependencies(path))
    findings = of_installed(
        import_names(paths), distribution_names(paths), texts, "\n".join((*base, *changed))
    )
    return replace(found, findings=(*found.findings, *findings))


def _with_code(work: ProvenWork, found: Evidence) -> Evidence:
    """The evidence with the doubt about code that reaches into what tests it."""
    item = work.item
    named = item.protection.named_tests()
    changed = {
        one.path: item.workspace.contents(one).decode("utf-8", "replace")
        for one in work.changes
        if not one.deleted and one.mode != MODE_NESTED
    }
    base = {path: item.context.text(path) for path in changed}
    paths = (*item.context.paths, *changed)
    tests = {path for path in paths if is_test(path) or named.holds(path)}
    why = reached(changed, base, tests)
    doubts = (Finding(_CODE, FindingKind.DOUBT, why, _READ),) if why else ()
    return replace(found, findings=(*found.findings, *doubts))


def _rerun(work: ProvenWork) -> tuple[TestRun, ...]:
    """Run the test again, and once more if it is not green then. Never in place."""
    if work.proof.tree is None:
        return ()
    runs = list[TestRun]()
    for label in (f"spot-check-{work.number}", f"spot-check-{work.number}-again"):
        run = prove(work.item, work.proof.tree, label, SPOT_CHECK, fresh=True)
        work.item.say(f"spot check {describe_run(run.kind, run.duration_s)}", passing=True)
        runs.append(run)
        if run.kind not in _RERUN_AGAIN:
            break
    return tuple(runs)
