"""From what was observed to a verdict, by tables."""

from __future__ import annotations

import pytest

from driver.backend_api.driver import (
    FAILURE_AGENT,
    FAILURE_CANCELLED,
    FAILURE_COULD_NOT_RUN,
    FAILURE_REFUSED,
    FAILURE_TIMED_OUT,
    CommandResult,
    WorkerResult,
)
from driver.domain.ownership import parse_owned
from driver.domain.results import REPAIRABLE, Change, RunKind, TestRun, Verdict
from driver.policy.judgement import (
    of_changes,
    of_dispatch,
    of_test,
    review_missing,
    run_kind,
)

OWNED = (parse_owned("src/a.py"), parse_owned("docs/"))


def change(path: str, mode: str | None = "100644") -> Change:
    return Change(path, mode, "0" * 40 if mode else None, "100644")


@pytest.mark.parametrize(
    ("failure", "error", "verdict"),
    [
        (FAILURE_AGENT, "exit 3", Verdict.FAILED),
        (FAILURE_TIMED_OUT, "too slow", Verdict.FAILED),
        (FAILURE_COULD_NOT_RUN, "no program", Verdict.UNDECIDED),
        (FAILURE_CANCELLED, "stopped", Verdict.HALTED),
        (FAILURE_REFUSED, "no", Verdict.REFUSED),
        ("", "out-of-scope: b.py", Verdict.REFUSED),
        ("", None, Verdict.FAILED),
    ],
)
def test_a_dispatch_that_failed_is_judged_by_why(
    failure: str, error: str | None, verdict: Verdict
) -> None:
    judgement = of_dispatch(WorkerResult("w", ok=False, failure=failure, error=error))
    assert judgement is not None
    assert judgement.verdict is verdict
    assert judgement.reason == (error or "the agent failed and gave no reason")


def test_what_could_not_run_never_costs_a_repair_round() -> None:
    assert Verdict.UNDECIDED not in REPAIRABLE
    assert Verdict.HALTED not in REPAIRABLE


def test_an_agent_that_says_it_worked_is_still_judged_by_its_files() -> None:
    assert of_dispatch(WorkerResult("w", ok=True, text="ALL TESTS PASS", verified=True)) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([change("src/b.py")], ["changed outside its files", "src/b.py"]),
        ([change("src/a.py"), change("x", None), change("y")], ["x, y"]),
        ([change("docs/sub", "160000")], ["a nested repository", "docs/sub"]),
        ([change("Src/a.py")], ["Src/a.py"]),
        ([change("docs2/x")], ["docs2/x"]),
    ],
)
def test_a_foreign_change_is_refused_and_every_path_is_named(
    changes: list[Change], words: list[str]
) -> None:
    judgement = of_changes(changes, OWNED)
    assert judgement is not None
    assert judgement.verdict is Verdict.REFUSED
    assert all(word in judgement.reason for word in words)


def test_what_an_agent_did_with_git_is_no_offence_and_is_named_where_nothing_is_on_disk() -> None:
    traces = ["it committed (HEAD is 12ab)", "branch side"]
    assert of_changes([change("src/a.py")], OWNED, git_traces=traces) is None
    nothing = of_changes([], OWNED, git_traces=traces)
    assert nothing is not None
    assert nothing.verdict is Verdict.NO_CHANGE
    assert nothing.reason.endswith("12ab), branch side")


def test_a_link_that_leaves_the_repository_is_refused() -> None:
    changes = [change("docs/l", "120000")]
    judgement = of_changes(changes, OWNED, links_outside=["docs/l"])
    assert judgement is not None
    assert judgement.verdict is Verdict.REFUSED


def test_an_empty_diff_is_no_change() -> None:
    judgement = of_changes([], OWNED)
    assert judgement is not None
    assert judgement.verdict is Verdict.NO_CHANGE


def test_own_changes_go_on_to_the_test() -> None:
    assert (
        of_changes([change("src/a.py"), change("docs/new/x.md"), change("docs/old", None)], OWNED)
        is None
    )


@pytest.mark.parametrize(
    ("result", "tampered", "kind"),
    [
        (CommandResult(0), (), RunKind.GREEN),
        (CommandResult(0), ("src/a.py",), RunKind.RED),
        (CommandResult(1), (), RunKind.RED),
        (CommandResult(-9), (), RunKind.KILLED),
        (CommandResult(0, timed_out=True), (), RunKind.TIMED_OUT),
        (CommandResult(0, could_not_run="no such program"), (), RunKind.COULD_NOT_RUN),
        (CommandResult(127, could_not_run="not found"), (), RunKind.COULD_NOT_RUN),
        (CommandResult(0, cancelled=True), (), RunKind.CANCELLED),
    ],
)
def test_green_is_exit_code_0_on_an_unchanged_tree_and_nothing_else(
    result: CommandResult, tampered: tuple[str, ...], kind: RunKind
) -> None:
    assert run_kind(result, tampered)[0] is kind


@pytest.mark.parametrize(
    ("in_place", "closed", "why"),
    [(True, "", "under git"), (False, "used up", "out: used up"), (False, "", None)],
)
def test_work_that_nobody_can_review_is_not_begun(
    in_place: bool, closed: str, why: str | None
) -> None:
    found = review_missing(in_place=in_place, closed=closed)
    assert (found is None) is (why is None)
    assert found is None or (found.verdict is Verdict.UNDECIDED and str(why) in found.reason)


@pytest.mark.parametrize(
    ("code", "name", "verdict"),
    [
        (-9, "SIGKILL", Verdict.UNDECIDED),
        (-15, "SIGTERM", Verdict.UNDECIDED),
        (137, "SIGKILL", Verdict.UNDECIDED),
        (-11, "SIGSEGV", Verdict.FAILED),
        (139, "SIGSEGV", Verdict.FAILED),
        (134, "SIGABRT", Verdict.FAILED),
    ],
)
def test_a_signal_is_named_and_costs_a_repair_only_where_the_work_raised_it(
    code: int, name: str, verdict: Verdict
) -> None:
    kind, reason = run_kind(CommandResult(code), ())
    assert (kind, name in reason) == (RunKind.KILLED, True)
    assert of_test(TestRun(kind, "t", code, "", 1.0, reason=reason)).verdict is verdict


@pytest.mark.parametrize("code", [1, 2, 128, 129, 130, 200, 255])
def test_other_exit_codes_are_the_programs_own(code: int) -> None:
    assert run_kind(CommandResult(code), ())[0] is RunKind.RED
