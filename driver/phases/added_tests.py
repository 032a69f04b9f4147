"""A green test run again without the tests that the work adds: these must not be what makes it so.

Whoever owns a folder may add tests to it, and a test can replace what the others look at.
"""

from __future__ import annotations

from driver.domain.results import WITHOUT_ADDED_TESTS, TestRun
from driver.phases.planted import Field
from driver.phases.prove import Asked, prove
from driver.policy.acceptance import added_tests, answers_without


def without_added_tests(field: Field, baseline: TestRun | None) -> TestRun | None:
    """The test of the work without these tests; None where there are none, and where the command
    would have no other test to run. Raises WorkspaceError."""
    planned, wave = field.planned, field.wave
    named = wave.protection(planned).named_tests()
    added = added_tests(field.changes, planned.owned, named)
    if not added or not answers_without(added, planned.item.test_command, baseline, named):
        return None
    tree = field.place.base_with([change for change in field.changes if change not in added])
    if tree is None:
        return None
    asked = Asked(f"without-added-tests-{field.number}", WITHOUT_ADDED_TESTS)
    run = prove(planned, field.place, tree, wave, asked)
    wave.recorder.say(f"{planned.slug}: without the tests it adds {run.kind}")
    return run
