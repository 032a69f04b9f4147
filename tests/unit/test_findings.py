"""The rule that makes verdicts and grades of findings, by tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driver.domain.findings import Finding, FindingKind, Grade, finding_from_json
from driver.domain.results import (
    NO_RERUN,
    Attempt,
    Change,
    Evidence,
    ItemOutcome,
    RunKind,
    TestRun,
    Verdict,
)
from driver.policy.acceptance import is_check_beside, names_limit, of_proof
from driver.policy.count_rules import may_be_silent, may_repeat, of_counts
from driver.policy.findings import decide
from driver.policy.grades import graded, is_rerun, of_grade
from driver.policy.known_red import accepted, allowed_on, names_change
from driver.runners.counts import Allowance
from driver.runners.result import CONTRADICTORY, MISSING, Counts, Doubt
from driver.runners.table import is_bare_call
from driver.wave.evidence_summary import project_doubts, read_first

OFFENCE, DOUBT = FindingKind
GREEN, RED = RunKind.GREEN, RunKind.RED
LONG = "\n".join(f"ok {number}" for number in range(40))


def finding(
    kind: FindingKind, on_base: bool | None, *, names: bool = False, by_agent: bool = True
) -> Finding:
    return Finding("check", kind, "seen", "mend it", on_base, names, by_agent)


def run(kind: RunKind, counts: Counts | Doubt | None = None, output: str = "") -> TestRun:
    return TestRun(kind, "t", 0 if kind is GREEN else 1, output, 1.0, "0" * 40, counts=counts)


def ran(number: int, failed: int = 0, skipped: int = 0, runner: str = "pytest") -> Counts:
    return Counts(runner, number, failed, skipped)


@pytest.mark.parametrize(
    ("one", "verdict", "waits"),
    [
        (finding(OFFENCE, None), Verdict.REFUSED, False),
        (finding(OFFENCE, False), Verdict.REFUSED, False),
        (finding(OFFENCE, True), Verdict.UNDECIDED, True),
        (finding(OFFENCE, None, by_agent=False), Verdict.UNDECIDED, True),
        (finding(DOUBT, True), None, False),
        (finding(DOUBT, True, names=True), None, False),
        (finding(DOUBT, None), None, False),
        (finding(DOUBT, None, names=True), None, False),
        (finding(DOUBT, False), None, False),
        (finding(DOUBT, False, names=True), Verdict.REFUSED, False),
        (finding(DOUBT, False, names=True, by_agent=False), Verdict.UNDECIDED, True),
    ],
)
def test_one_rule_decides_what_is_held_against_an_item(
    one: Finding, verdict: Verdict | None, *, waits: bool
) -> None:
    judgement = decide([finding(DOUBT, None), one])
    assert (judgement and judgement.verdict) is verdict
    assert bool(judgement and judgement.waits) is waits
    assert judgement is None or "mend it" in judgement.reason
    assert judgement is None or ("on the base as well" in judgement.reason) is one.is_of_project


def test_a_finding_is_the_same_after_its_json() -> None:
    one = Finding("check", DOUBT, "seen", "mend it", on_base=True)
    assert finding_from_json(one.to_json()) == one


COUNTED, SILENT = ran(3), None
BROKEN, MIXED = Doubt("pytest", MISSING), Doubt("pytest", CONTRADICTORY)


@pytest.mark.parametrize(
    ("now", "base", "quiet", "held", "on_base"),
    [
        # The base told its counts, and the work does not.
        (run(GREEN), run(GREEN, COUNTED), False, Verdict.REFUSED, False),
        (run(GREEN), run(GREEN, COUNTED), True, Verdict.REFUSED, False),
        (run(GREEN), run(RED, COUNTED), False, Verdict.REFUSED, False),
        (run(GREEN), run(RED, COUNTED), True, None, None),
        (run(GREEN, BROKEN), run(GREEN, COUNTED), False, Verdict.REFUSED, False),
        (run(GREEN, BROKEN), run(RED, COUNTED), True, None, None),
        (run(GREEN, MIXED), run(RED, COUNTED), False, Verdict.REFUSED, False),
        # Neither tells them.
        (run(GREEN), run(GREEN), False, None, True),
        (run(GREEN), run(RED), False, None, True),
        (run(GREEN), None, False, None, None),
        (run(GREEN), run(RunKind.COULD_NOT_RUN), False, None, None),
        (run(GREEN, MIXED), run(RED, MIXED), False, None, True),
        (run(GREEN, BROKEN), run(GREEN, BROKEN), False, None, True),
        (run(GREEN, BROKEN), run(RED, BROKEN), False, Verdict.REFUSED, False),
        (run(GREEN, BROKEN), run(RED, BROKEN), True, None, True),
        (run(GREEN, BROKEN), run(RED, MIXED), False, Verdict.REFUSED, False),
        # Much output vanished, whatever the runner is.
        (run(GREEN), run(GREEN, output=LONG), False, Verdict.UNDECIDED, False),
        (run(GREEN), run(RED, output=LONG), False, None, None),
        (run(GREEN, output="fine"), run(GREEN, output=LONG), False, None, True),
        (run(GREEN), run(GREEN, output="a warning"), False, None, True),
        # The counts are known.
        (run(GREEN, ran(0)), run(GREEN, ran(0)), False, Verdict.UNDECIDED, True),
        (run(GREEN, ran(0, skipped=1)), run(GREEN, COUNTED), False, Verdict.REFUSED, False),
        (run(GREEN, ran(0)), None, False, Verdict.REFUSED, False),
        (run(GREEN, ran(3, 1)), run(GREEN, ran(3, 1)), False, None, True),
        (run(GREEN, ran(3, 2)), run(GREEN, ran(3, 1)), False, Verdict.REFUSED, False),
        (run(GREEN, ran(3, 1)), run(RED, ran(3, 1)), False, Verdict.REFUSED, False),
        (run(GREEN, ran(3, 1)), None, False, Verdict.REFUSED, False),
        (run(GREEN, ran(2)), run(GREEN, COUNTED), False, Verdict.UNDECIDED, False),
        (run(GREEN, ran(3, runner="jest")), run(GREEN, COUNTED), False, Verdict.REFUSED, False),
    ],
)
def test_the_base_is_asked_before_counts_are_held_against_an_item(
    now: TestRun,
    base: TestRun | None,
    held: Verdict | None,
    on_base: bool | None,
    *,
    quiet: bool,
) -> None:
    (one,) = of_counts(now, base, Allowance(), may_be_silent=quiet)
    judgement = decide([one])
    assert (judgement and judgement.verdict) is held
    assert one.on_base is on_base


@pytest.mark.parametrize(
    ("lines", "silent"),
    [
        ((("pytest", "-v"),), False),
        (("pytest 2>&1 | tee log",), False),
        (('out=$(pytest) || { echo "$out"; exit 1; }',), True),
        (("pytest > log",), True),
        (("mvn -q test",), True),
        (("make test", "pytest >log || cat log"), True),
        (("make test", "pytest"), False),
    ],
)
def test_a_command_may_hide_what_a_green_run_prints(
    lines: tuple[str | tuple[str, ...], ...], *, silent: bool
) -> None:
    assert may_be_silent(lines) is silent


@pytest.mark.parametrize(
    ("lines", "repeats"),
    [
        (("pytest",), False),
        (("make test", "pytest"), False),
        (("make test", "pytest a", "pytest b"), True),
        (("pytest a && pytest b",), True),
        (("make test", 'for one in a b; do pytest "$$one" || exit 1; done'), True),
    ],
)
def test_a_red_base_does_not_show_the_second_summary_of_a_command_that_runs_tests_twice(
    lines: tuple[str, ...], *, repeats: bool
) -> None:
    assert may_repeat(lines) is repeats
    (one,) = of_counts(run(GREEN, MIXED), run(RED, COUNTED), Allowance(), may_repeat=repeats)
    assert one.is_held is not repeats
    (one,) = of_counts(run(GREEN, MIXED), run(GREEN, COUNTED), Allowance(), may_repeat=repeats)
    assert one.is_held


PROOF = run(GREEN, ran(3))
BASE = run(RED, ran(3, 1))
CANARY_RUN = run(RED, ran(5, 2))
FULL = Evidence(baseline=BASE, canary_word="red", canaries=(CANARY_RUN,))


@pytest.mark.parametrize(
    ("proof", "evidence", "grade", "lacks"),
    [
        (PROOF, FULL, Grade.A, 0),
        (PROOF, replace(FULL, spot_checks=(PROOF,), canaries=()), Grade.A, 0),
        (PROOF, replace(FULL, baseline=PROOF), Grade.B, 1),
        (PROOF, replace(FULL, baseline=None), Grade.B, 1),
        (PROOF, replace(FULL, baseline=PROOF, reverted=run(RED, ran(4, 1))), Grade.A, 0),
        (PROOF, replace(FULL, baseline=run(GREEN, ran(0))), Grade.A, 0),
        (PROOF, replace(FULL, canaries=(run(RED, ran(1, 1)),)), Grade.B, 1),
        (PROOF, replace(FULL, canary_word="not_applicable", canaries=()), Grade.B, 2),
        (PROOF, replace(FULL, findings=(finding(DOUBT, True),)), Grade.B, 0),
        (PROOF, replace(FULL, findings=(finding(DOUBT, None),) * 2), Grade.C, 0),
        (run(GREEN), FULL, Grade.B, 2),
        (run(GREEN), replace(FULL, canary_word="unseen"), Grade.C, 3),
        (run(GREEN), Evidence(), Grade.C, 4),
    ],
)
def test_the_grade_tells_how_much_is_known(
    proof: TestRun, evidence: Evidence, grade: Grade, lacks: int
) -> None:
    found = graded(proof, evidence)
    assert found.grade is grade
    assert len(found.lacks) == lacks


@pytest.mark.parametrize(
    ("counts", "same"),
    [
        (ran(5, 2), True),
        (ran(4, 1), True),
        (ran(4, 2), False),  # one of the others is red as well
        (ran(1, 1), False),  # the canary alone
        (ran(4, 1, 1), False),
        (None, False),
    ],
)
def test_a_canary_run_in_which_all_other_tests_gave_the_same_results_is_a_rerun(
    counts: Counts | None, *, same: bool
) -> None:
    assert is_rerun(PROOF, Evidence(canaries=(run(RED, counts),))) is same


RERUN = replace(CANARY_RUN, exit_code=1)


@pytest.mark.parametrize(
    ("proof", "canary", "is_check"),
    [
        (PROOF, RERUN, True),
        (PROOF, replace(RERUN, exit_code=101), True),
        (PROOF, replace(RERUN, exit_code=2), False),  # pytest was interrupted
        (PROOF, replace(RERUN, exit_code=None), False),
        (PROOF, replace(RERUN, tree="1" * 40), False),
        (PROOF, replace(RERUN, survivors=("sleep (7)",)), False),
        (PROOF, replace(RERUN, counts=ran(6, 3)), False),  # another test is red as well
        (PROOF, replace(RERUN, counts=ran(4, 2)), False),
        (PROOF, replace(RERUN, counts=ran(5, 2, 1)), False),
        (PROOF, replace(RERUN, counts=None), False),
        (replace(PROOF, known_red=("a",)), RERUN, False),
        (run(GREEN), RERUN, False),
    ],
)
def test_a_canary_run_is_the_spot_check_if_only_the_canary_tests_are_red(
    proof: TestRun, canary: TestRun, *, is_check: bool
) -> None:
    assert is_check_beside(proof, canary, planted=2) is is_check


@pytest.mark.parametrize(
    ("output", "named"),
    [
        ('Jest: "global" coverage threshold for lines (50%) not met: 90%', True),
        ("FAIL Required test coverage of 90% not reached. Total coverage: 50.00%", True),
        ("Error: 50.00% line coverage does not meet threshold of 90%.", True),
        ("ERROR: Coverage for lines (50%) does not meet global threshold (90%)", True),
        ("Coverage failure: total of 50 is less than fail-under=90", True),
        ("FAILED tests/test_a.py::test_b - assert 1 == 2\nName Stmts Miss Cover", False),
    ],
)
def test_a_limit_of_coverage_is_found_in_the_output(output: str, *, named: bool) -> None:
    assert names_limit(output) is named


@pytest.mark.parametrize(
    ("command", "is_bare"),
    [
        (("pytest", "-q"), True),
        ("pytest -q tests", True),
        (("python", "-m", "pytest"), True),
        (("/opt/python3", "-W", "error", "-m", "unittest", "tests.test_a"), True),
        (("go", "test", "./..."), True),
        ("node --test", True),
        ("pytest && true", False),
        ("pytest; ruff check", False),
        ("pytest > out", False),
        ("A=1 pytest", False),
        (("env", "A=1", "pytest"), False),
        (("sh", "-c", "pytest"), False),
        (("uv", "run", "pytest"), False),
        (("coverage", "run", "-m", "pytest"), False),
        (("python", "-m", "coverage", "run", "-m", "unittest"), False),
        (("npm", "test"), False),
        (("make", "test"), False),
        (("nyc", "mocha"), False),
        ("sh run.sh", False),
    ],
)
def test_a_bare_call_starts_nothing_but_the_runner(
    command: str | tuple[str, ...], *, is_bare: bool
) -> None:
    assert is_bare_call(command) is is_bare


def test_a_canary_run_on_another_tree_is_no_rerun() -> None:
    base = replace(run(RED, ran(5, 2)), tree="1" * 40)
    assert not is_rerun(PROOF, Evidence(canaries=(base,)))
    fewer = replace(PROOF, counts=ran(2))
    assert not is_rerun(PROOF, Evidence(spot_checks=(fewer,)))


@pytest.mark.parametrize(
    ("grade", "least", "ships"),
    [
        (Grade.A, "A", True),
        (Grade.B, "A", False),
        (Grade.B, "B", True),
        (Grade.C, "B", False),
        (Grade.C, "C", True),
    ],
)
def test_work_below_the_grade_that_a_project_asks_for_waits_for_a_person(
    grade: Grade, least: str, *, ships: bool
) -> None:
    found = Evidence(grade=grade, lacks=("the tests were not counted",))
    judgement = of_grade(found, least)
    assert (judgement is None) is ships
    assert judgement is None or (judgement.verdict, judgement.waits) == (Verdict.UNDECIDED, True)
    assert judgement is None or "the tests were not counted" in judgement.reason


def outcome(slug: str, evidence: Evidence, *together: TestRun) -> ItemOutcome:
    attempt = Attempt(1, "build", Verdict.VERIFIED, evidence=evidence)
    return ItemOutcome(slug, Verdict.VERIFIED, attempts=(attempt,), batch_runs=together)


def test_the_run_together_is_a_rerun_too() -> None:
    only = Evidence(grade=Grade.B, lacks=(NO_RERUN,))
    assert outcome("a", only).grade is Grade.B
    assert outcome("a", only, PROOF).grade is Grade.A
    assert outcome("a", only, run(RED)).grade is Grade.B
    assert outcome("a", replace(only, lacks=(NO_RERUN, "more")), PROOF).grade is Grade.B
    assert outcome("a", replace(only, findings=(finding(DOUBT, True),)), PROOF).grade is Grade.B


def test_what_the_run_together_has_shown_is_no_longer_told_as_lacking() -> None:
    found = Evidence(grade=Grade.B, lacks=("no canary", NO_RERUN))
    assert outcome("a", found).lacks == ("no canary", NO_RERUN)
    assert outcome("a", found, run(RED)).lacks == ("no canary", NO_RERUN)
    assert outcome("a", found, PROOF).lacks == ("no canary",)
    assert [one["why"] for one in read_first([outcome("a", found, PROOF)])] == [["no canary"]]


def test_the_lowest_grade_is_read_first_and_a_doubt_of_the_project_is_told_once() -> None:
    shared = finding(DOUBT, True)
    items = [
        outcome("a", Evidence(grade=Grade.A)),
        outcome("b", Evidence(grade=Grade.B, findings=(shared,))),
        outcome("c", Evidence(grade=Grade.C, findings=(shared, finding(DOUBT, None)))),
        outcome("d", Evidence(grade=Grade.B, lacks=("no canary",))),
    ]
    assert [one["slug"] for one in read_first(items)] == ["c", "b", "d"]
    (doubt,) = project_doubts(items)
    assert (doubt["items"], doubt["remedy"]) == (["b", "c"], "mend it")


OTHERS = ("tests/test_old.py::test_service", "tests/test_old.py::test_clock")


def red(*failing: str, failed: int | None = None, exit_code: int = 1, output: str = "") -> TestRun:
    counts = ran(5, len(failing) if failed is None else failed)
    return replace(run(RED, counts, output), failing=failing, exit_code=exit_code)


@pytest.mark.parametrize(
    ("one", "patterns", "green"),
    [
        (red(*OTHERS), ["tests/test_old.py::*"], True),
        (red(OTHERS[0]), ["tests/test_old.py::*"], True),
        (red(*OTHERS), [*OTHERS], True),
        (red(*OTHERS), [OTHERS[0]], False),
        (red(*OTHERS, "tests/test_new.py::test_x"), ["*"], False),  # not red on the base
        (red(*OTHERS, failed=3), ["*"], False),  # a red test without a name
        (red(*OTHERS, exit_code=2), ["*"], False),
        (red(), ["*"], False),
        (replace(red(*OTHERS), counts=None), ["*"], False),
        (replace(red(*OTHERS), tampered=("a.py",)), ["*"], False),
        (replace(red(*OTHERS), kind=RunKind.KILLED), ["*"], False),
    ],
)
def test_exactly_the_tests_that_are_known_to_be_red_may_stay_red(
    one: TestRun, patterns: list[str], *, green: bool
) -> None:
    base = red(*OTHERS)
    found = accepted(one, allowed_on(base, patterns), base.exit_code)
    assert found.green is green
    assert bool(found.known_red) is green


@pytest.mark.parametrize(
    ("one", "named"),
    [
        (red(*OTHERS), False),
        (red("tests/test_calc.py::test_one"), True),
        (red("tests/test_calc.py::TestA::test_one[a.b]"), True),
        (red("tests/test_old.py::test_calc_of_old"), False),
        (red("tests/test_old.py::test_calc::test_one[calc]"), False),
        (red("test_one (tests.test_calc.A.test_one)"), True),
        (red("test_calc (tests.test_old.A.test_calc)"), False),
        (red("test/calc.test.js > sum > adds"), True),
        (red("test/sum.test.js > calc > adds"), False),
        (red("calc::tests::adds"), True),
        (red("calc adds"), False),
        (red(*OTHERS, output='  File "src/calc.py", line 3, in one'), True),
        (red(*OTHERS, output="src/calc.py:3: AssertionError"), True),
        (red(*OTHERS, output="tests/test_calc.py .....\ncalculated"), False),
    ],
)
def test_a_red_test_is_the_items_where_it_names_a_changed_file(
    one: TestRun, *, named: bool
) -> None:
    changes = [Change("src/calc.py", "100644", "0" * 40, "100644")]
    assert names_change(one, changes) is named
    judgement = of_proof(one, red(*OTHERS, *one.failing), changes)
    assert judgement.verdict is (Verdict.FAILED if named else Verdict.UNDECIDED)
    assert "red on the base as well" in judgement.reason


def test_a_red_test_that_was_green_on_the_base_is_held_against_the_item() -> None:
    judgement = of_proof(red(*OTHERS), red(OTHERS[0]))
    assert judgement.verdict is Verdict.FAILED
    assert f"red only now: {OTHERS[1]}" in judgement.reason


NO_NETWORK = "error: Failed to fetch: https://pypi.org/simple/pytest/\npy311: FAIL code 2\n"


@pytest.mark.parametrize(
    ("now", "base", "verdict"),
    [
        (NO_NETWORK, NO_NETWORK, Verdict.UNDECIDED),
        (NO_NETWORK, "", Verdict.FAILED),  # perhaps a requirement that the item added
        ("", NO_NETWORK, Verdict.FAILED),
        ("npm error network", "npm error network", Verdict.UNDECIDED),
        ("could not add", "could not add", Verdict.FAILED),
    ],
)
def test_a_test_that_cannot_get_its_packages_on_the_base_either_charges_nobody(
    now: str, base: str, verdict: Verdict
) -> None:
    before, after = (replace(red(), counts=None, output=said) for said in (base, now))
    judgement = of_proof(after, before)
    assert (judgement.verdict, judgement.waits) == (verdict, False)
    counted = replace(after, counts=red().counts)
    assert of_proof(counted, before).verdict is Verdict.FAILED
