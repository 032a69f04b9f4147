"""A green test run again without the tests that the work adds: these must not be what makes it so.

Whoever owns a folder may add tests to it, and a test can replace what the others look at.
"""

from __future__ import annotations

from driver.domain.results import SPOT_CHECK, WITHOUT_ADDED_TESTS, RunKind, TestRun
from driver.policy.acceptance import added_tests, answers_without, is_chosen
from driver.run_state.context import ItemRun
from driver.terminal.safe_text import describe_run
from driver.verification.canary_run import Field
from driver.verification.test_run import TestRequest, prove


def without_added_tests(field: Field, baseline: TestRun | None) -> TestRun | None:
    """The test of the work without these tests; None where there are none, and where the command
    would have no other test to run. Raises WorkspaceError."""
    item = field.item
    named = item.protection.named_tests()
    added = added_tests(field.changes, item.planned.owned, named)
    if not added or not answers_without(added, item.spec.test_command, baseline, named):
        return None
    tree = item.checkouts.base_with([change for change in field.changes if change not in added])
    if tree is None:
        return None
    asked = TestRequest(f"without-added-tests-{field.number}", WITHOUT_ADDED_TESTS)
    run = prove(item, tree, asked)
    item.say(f"without the tests it adds {run.kind}")
    return run


_ANSWERS_NO = (RunKind.RED, RunKind.TIMED_OUT, RunKind.KILLED)


def spot_check(item: ItemRun, tree: str | None, number: int) -> tuple[TestRun, ...]:
    """The further runs, none for an item that was not chosen."""
    if not is_chosen(item.wave.wave_id, item.slug, item.planned.policy.spot_check_frac):
        return ()
    return rerun(item, tree, number)


def rerun(item: ItemRun, tree: str | None, number: int) -> tuple[TestRun, ...]:
    """The test once more, and twice where it is not green then; not in place."""
    if tree is None:
        return ()
    runs = [_again(item, tree, f"spot-check-{number}")]
    if runs[0].kind in _ANSWERS_NO:
        runs.append(_again(item, tree, f"spot-check-{number}-again"))
    return tuple(runs)


def _again(item: ItemRun, tree: str, label: str) -> TestRun:
    run = prove(item, tree, TestRequest(label, SPOT_CHECK, fresh=True))
    item.say(f"spot check {describe_run(run.kind, run.duration_s)}")
    return run
