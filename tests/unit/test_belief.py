"""What a green is worth, by tables."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from driver.domain.ownership import OwnedPath
from driver.domain.results import Change, RunKind, TestRun, Verdict
from driver.policy.acceptance import (
    is_chosen,
    is_doubted,
    of_baseline,
    of_canary,
    of_no_change,
    of_proof,
    of_spot_checks,
    passes,
)
from driver.policy.added_tests import added_tests, answers_without, of_added_tests
from driver.policy.count_rules import of_counts
from driver.policy.findings import decide
from driver.policy.judgement import Judgement
from driver.policy.test_files import NamedTests
from driver.runners.counts import Allowance
from driver.runners.result import CONTRADICTORY, MISSING, Counts, Doubt

GREEN, RED, LATE, BROKEN, STOPPED = (
    RunKind.GREEN,
    RunKind.RED,
    RunKind.TIMED_OUT,
    RunKind.COULD_NOT_RUN,
    RunKind.CANCELLED,
)


def run(kind: RunKind, counts: Counts | Doubt | None = None) -> TestRun:
    code = {GREEN: 0, RED: 1}.get(kind)
    reason = "" if kind is GREEN else f"it was {kind}"
    return TestRun(kind, "t", code, "", 1.0, "0" * 40, reason=reason, counts=counts)


def ran(number: int, skipped: int = 0) -> Counts:
    return Counts("unittest", number, 0, skipped)


@pytest.mark.parametrize(
    ("proof", "base", "regression"),
    [
        (RED, GREEN, True),
        (LATE, GREEN, True),
        (RED, RED, False),
        (RED, BROKEN, False),
        (RED, None, False),
        (BROKEN, GREEN, False),
        (GREEN, GREEN, False),
    ],
)
def test_a_regression_is_what_is_green_on_the_base_and_red_now(
    proof: RunKind, base: RunKind | None, *, regression: bool
) -> None:
    judgement = of_proof(run(proof), run(base) if base else None)
    assert ("regression" in judgement.reason) is regression


@pytest.mark.parametrize(
    ("base", "expected", "verdict"),
    [
        (GREEN, None, Verdict.ALREADY_GREEN),
        (GREEN, "green", Verdict.NO_CHANGE),
        (RED, None, Verdict.NO_CHANGE),
        (BROKEN, None, Verdict.NO_CHANGE),
        (None, None, Verdict.NO_CHANGE),
    ],
)
def test_nothing_had_to_be_done_only_where_the_test_is_green_and_was_to_become_so(
    base: RunKind | None, expected: str | None, verdict: Verdict
) -> None:
    judgement = Judgement(Verdict.NO_CHANGE, "nothing")
    assert of_no_change(judgement, run(base) if base else None, expected).verdict is verdict


def test_a_base_on_which_no_test_ran_is_not_green() -> None:
    nothing = run(GREEN, ran(0))
    assert not passes(nothing)
    judgement = Judgement(Verdict.NO_CHANGE, "nothing")
    assert of_no_change(judgement, nothing, None) is judgement
    assert of_baseline(nothing, None, "require") == ()


@pytest.mark.parametrize(
    ("base", "expected", "policy", "verdict"),
    [
        (GREEN, None, "require", Verdict.UNDECIDED),
        (GREEN, None, "record", None),
        (GREEN, None, "off", None),
        (RED, None, "require", None),
        (LATE, None, "require", None),
        (GREEN, "green", "require", None),
        (RED, "green", "require", Verdict.UNDECIDED),
        (RED, "green", "record", None),
        (BROKEN, None, "require", None),
        (STOPPED, None, "require", None),
        (BROKEN, "green", "require", None),
        (None, None, "require", None),
    ],
)
def test_red_first_is_asked_where_it_is_required(
    base: RunKind | None, expected: str | None, policy: str, verdict: Verdict | None
) -> None:
    judgement = decide(of_baseline(run(base) if base else None, expected, policy))
    assert (judgement.verdict if judgement else None) is verdict


@pytest.mark.parametrize(
    ("reverted", "may_write_tests", "verdict"),
    [
        (RED, True, None),
        (GREEN, True, Verdict.REFUSED),
        (None, True, Verdict.REFUSED),
        (None, False, Verdict.UNDECIDED),
    ],
)
def test_the_works_own_tests_may_show_it_and_are_asked_for_where_they_can_be_written(
    reverted: RunKind | None, verdict: Verdict | None, *, may_write_tests: bool
) -> None:
    findings = of_baseline(
        run(GREEN),
        None,
        "require",
        reverted=run(reverted) if reverted else None,
        may_write_tests=may_write_tests,
    )
    judgement = decide(findings)
    assert (judgement.verdict if judgement else None) is verdict


@pytest.mark.parametrize(
    ("now", "base", "allowance", "verdict"),
    [
        (ran(3), ran(3), Allowance(), None),
        (ran(2), ran(3), Allowance(), Verdict.UNDECIDED),  # a person allows it, no agent is paid
        (ran(2), ran(3), Allowance(1, 0), None),
        (ran(3, 1), ran(3), Allowance(), Verdict.UNDECIDED),
        (ran(3, 1), ran(3), Allowance(0, 1), None),
        (ran(0), None, Allowance(9, 9), Verdict.REFUSED),
        (None, None, Allowance(), None),
        (None, ran(3), Allowance(), Verdict.REFUSED),
    ],
)
def test_counts_are_compared_with_the_base(
    now: Counts | None, base: Counts | None, allowance: Allowance, verdict: Verdict | None
) -> None:
    judgement = decide(of_counts(run(GREEN, now), run(RED, base), allowance))
    assert (judgement and judgement.verdict) is verdict
    assert judgement is None or judgement.waits is (verdict is Verdict.UNDECIDED)


def test_a_base_that_could_not_be_tested_has_no_counts() -> None:
    assert of_counts(run(GREEN, ran(2)), run(BROKEN, ran(3)), Allowance()) == ()
    assert of_counts(run(GREEN, ran(2)), None, Allowance()) == ()


@pytest.mark.parametrize(
    ("word", "refused"),
    [("green", True)]
    + [(word, False) for word in ("red", "unseen", "undecided", "not_applicable", None)],
)
def test_only_a_planted_test_that_passes_refuses(word: str | None, *, refused: bool) -> None:
    judgement = decide(of_canary(word, "told"))
    assert (judgement == Judgement(Verdict.REFUSED, "canary passed: told")) is refused


@pytest.mark.parametrize(
    ("kinds", "policy", "verdict"),
    [
        ((), "refuse", None),
        ((GREEN,), "refuse", None),
        ((RED, GREEN), "refuse", Verdict.FLAKY),
        ((RED, RED), "refuse", Verdict.FLAKY),
        ((LATE, GREEN), "refuse", Verdict.FLAKY),
        ((RED, BROKEN), "refuse", Verdict.FLAKY),
        ((RED, GREEN), "allow", Verdict.VERIFIED),
        ((BROKEN,), "refuse", Verdict.UNDECIDED),
        ((BROKEN,), "allow", Verdict.UNDECIDED),
        ((STOPPED,), "refuse", Verdict.HALTED),
    ],
)
def test_different_answers_for_one_tree_are_flaky_whatever_the_last_one_is(
    kinds: tuple[RunKind, ...], policy: str, verdict: Verdict | None
) -> None:
    judgement = of_spot_checks([run(kind) for kind in kinds], policy)
    assert (judgement.verdict if judgement else None) is verdict


def test_the_choice_is_the_same_every_time_and_no_name_decides_it() -> None:
    slugs = [f"item-{n}" for n in range(1000)]
    chosen = [slug for slug in slugs if is_chosen("w", slug, 0.1)]
    assert chosen == [slug for slug in slugs if is_chosen("w", slug, 0.1)]
    assert 60 < len(chosen) < 140
    assert chosen != [slug for slug in slugs if is_chosen("w2", slug, 0.1)]
    assert not any(is_chosen("w", slug, 0) for slug in slugs)
    assert all(is_chosen("w", slug, 1) for slug in slugs)


def added(path: str, *, old: bool = False) -> Change:
    return Change(path, "100644", "0" * 40, "100644" if old else None)


@pytest.mark.parametrize(
    ("changes", "owns", "found"),
    [
        ([added("tests/test_a.py"), added("a.py")], ["./"], ["tests/test_a.py"]),
        ([added("tests/test_a.py")], ["./", "tests/test_a.py"], []),
        ([added("tests/help.py"), added("tests/test_b.py", old=True)], ["./"], []),
        ([added("calc_test.go")], ["./"], ["calc_test.go"]),
        ([added("a.py", old=True)], ["./"], []),
    ],
)
def test_of_tests_that_are_listed_none_counts_as_added_where_no_runner_is_known(
    changes: list[Change], owns: list[str], found: list[str]
) -> None:
    owned = [OwnedPath("", is_dir=True) if o == "./" else OwnedPath(o) for o in owns]
    assert [change.path for change in added_tests(changes, owned)] == found


@pytest.mark.parametrize(
    ("path", "owns", "is_added"),
    [
        ("tests/test_a.py", "tests/test_a.py", True),
        ("tests/factory.py", "tests/factory.py", False),  # others may need it
        ("tests/factory.py", "./", True),
        ("check_a.py", "./", True),
        ("b.py", "./", False),
    ],
)
def test_a_test_that_is_listed_counts_as_added_where_a_runner_looks_for_it(
    path: str, owns: str, *, is_added: bool
) -> None:
    owned = [OwnedPath("", is_dir=True) if owns == "./" else OwnedPath(owns)]
    named = NamedTests(patterns=((".", "check_*.py"),), is_read=True)
    assert bool(added_tests([added(path)], owned, named)) is is_added


def test_what_a_command_names_by_a_makefile_is_not_left_out() -> None:
    named = NamedTests(frozenset({"tests/test_a.py"}), is_read=True)
    work = [added("tests/test_a.py")]
    assert answers_without(work, "make test", run(RED, ran(2)))
    assert not answers_without(work, "make test", run(RED, ran(2)), named)


@pytest.mark.parametrize(
    ("without", "verdict"),
    [
        (run(LATE), Verdict.UNDECIDED),
        (run(BROKEN), Verdict.UNDECIDED),
        (replace(run(RunKind.KILLED), exit_code=-signal.SIGKILL), Verdict.UNDECIDED),
        (replace(run(RunKind.KILLED), exit_code=-signal.SIGSEGV), Verdict.REFUSED),
        (run(STOPPED), None),
    ],
)
def test_a_run_without_added_tests_that_gives_no_answer_ships_nothing(
    without: TestRun, verdict: Verdict | None
) -> None:
    finding = of_added_tests(without)
    judged = decide([finding]) if finding else None
    assert (judged and judged.verdict) == verdict


def test_added_tests_do_not_make_up_for_others_that_are_gone() -> None:
    fewer = of_added_tests(run(GREEN, ran(1)), run(RED, ran(2)))
    assert fewer
    assert "fewer tests ran: 1, on the base 2" in fewer.reason
    assert of_added_tests(run(GREEN, ran(1)), run(RED, ran(2)), Allowance(fewer_tests_ok=1)) is None
    assert of_added_tests(run(GREEN, ran(2)), run(RED, ran(2))) is None
    assert of_added_tests(run(RED, ran(1)), run(RED, ran(2))) is not None
    assert of_added_tests(run(RED, ran(2)), run(RED, ran(2))) is None


@pytest.mark.parametrize(
    ("kind", "reason", "refused"),
    [(RED, MISSING, True), (GREEN, MISSING, False), (RED, CONTRADICTORY, False)],
)
def test_a_run_that_breaks_off_is_green_only_where_the_base_does_so_green(
    kind: RunKind, reason: str, *, refused: bool
) -> None:
    doubt = Doubt("pytest", reason)
    assert bool(decide(of_counts(run(GREEN, doubt), run(kind, doubt), Allowance()))) is refused


@pytest.mark.parametrize(
    ("command", "base", "asked"),
    [
        ("pytest", ran(2), True),
        ("make test", None, True),
        ("pytest tests/test_a.py", ran(2), False),
        (("pytest", "./tests/test_a.py::test_x"), ran(2), False),
        ("python -m unittest tests.test_a", ran(2), False),
        ("pytest tests/test_b.py", ran(2), True),
        ("pytest", ran(0), False),
        ("pytest", Doubt("pytest", "x"), False),
    ],
)
def test_without_added_tests_others_must_be_left(
    command: str | tuple[str, ...], base: Counts | Doubt | None, *, asked: bool
) -> None:
    assert answers_without([added("tests/test_a.py")], command, run(RED, base)) is asked


@pytest.mark.parametrize(
    ("without", "refused"),
    [
        (None, False),
        (run(GREEN), False),
        (run(RED), True),
        (run(RED, Counts("pytest", 3, 1, 0)), True),
        (run(RED, Counts("pytest", 3, 0, 0)), False),  # a coverage that is too low
    ],
)
def test_what_only_added_tests_make_green_is_refused(
    without: TestRun | None, *, refused: bool
) -> None:
    finding = of_added_tests(without)
    assert (finding is not None) is refused
    judgement = decide([finding]) if finding else None
    assert judgement is None or judgement.verdict is Verdict.REFUSED


@pytest.mark.parametrize(
    ("proof", "planted", "doubted"),
    [
        (Counts("unittest", 3, 0, 0), Counts("unittest", 4, 1, 0), False),
        (Counts("unittest", 3, 0, 0), Counts("unittest", 4, 2, 0), True),
        (Counts("unittest", 3, 0, 0), Counts("unittest", 1, 1, 0), False),
        (Counts("pytest", 3, 0, 0), Counts("pytest", 5, 2, 0), False),
        (Counts("pytest", 3, 0, 0), Counts("pytest", 5, 3, 0), True),
        (None, Counts("pytest", 5, 3, 0), False),
        (Counts("pytest", 3, 0, 0), None, False),
    ],
)
def test_a_green_that_is_red_beside_a_planted_test_is_looked_at_again(
    proof: Counts | None, planted: Counts | None, *, doubted: bool
) -> None:
    assert is_doubted(run(GREEN, proof), [run(RED, planted)]) is doubted
    assert not is_doubted(run(GREEN, proof), [])
