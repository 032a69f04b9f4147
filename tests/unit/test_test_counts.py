"""Counts are read from runners' real output, never guessed, and judged against the base."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from driver.policy.count_rules import judge_counts
from driver.runners.counts import Allowance, Counts, Doubt, count_tests
from driver.runners.result import CONTRADICTORY, MISSING

OUTPUTS = Path(__file__).resolve().parents[1] / "support" / "runner_outputs"

# Counts are (ran, failed, skipped); a text is the reason of a doubt; None is "does not tell".
Truth = tuple[int, int, int] | str | None
UNITTEST = "python -m unittest discover"
PYTEST = "python -m pytest"
CAPTURED: list[tuple[str, str, Truth]] = [
    ("unittest/pass", UNITTEST, (2, 0, 0)),
    ("unittest/mixed", UNITTEST, (3, 2, 3)),
    ("unittest/mixed_verbose", "python3 -m unittest -v test_a", (3, 2, 3)),
    ("unittest/skipped", UNITTEST, (0, 0, 2)),
    ("unittest/zero", UNITTEST, (0, 0, 0)),
    ("unittest/broken", UNITTEST, (3, 1, 0)),
    ("unittest/crash", UNITTEST, MISSING),
    ("unittest/fake", UNITTEST, CONTRADICTORY),
    ("unittest/sub", UNITTEST, (1, 2, 0)),
    ("unittest/two_subtests", UNITTEST, (4, 2, 1)),
    ("unittest/two_runs", "python -m unittest a && python -m unittest a.A", (3, 0, 0)),
    ("unittest/two_runs", "make test", CONTRADICTORY),
    ("unittest/part", UNITTEST, (1, 0, 1)),
    ("unittest/part_python_3_12_1", UNITTEST, (1, 0, 1)),
    ("unittest/part_python_3_13", UNITTEST, (1, 0, 1)),
    ("unittest/zero_python_3_12_1", UNITTEST, (0, 0, 0)),
    ("unittest/zero_python_3_13", UNITTEST, (0, 0, 0)),
    ("unittest/skipped_python_3_12_1", UNITTEST, (0, 0, 2)),
    ("unittest/skipped_python_3_13", UNITTEST, (0, 0, 2)),
    ("unittest/mixed_python_3_12_1", UNITTEST, (3, 2, 3)),
    ("unittest/mixed_python_3_13", UNITTEST, (3, 2, 3)),
    ("pytest/pass", PYTEST, (3, 0, 0)),
    ("pytest/mixed", PYTEST, (3, 2, 3)),
    ("pytest/mixed_quiet", "pytest -q", (3, 2, 3)),
    ("pytest/mixed_qq", "pytest -qq", None),
    ("pytest/mixed_qq", "pytest", MISSING),
    ("pytest/mixed_xdist", "pytest -n 2", (3, 2, 3)),
    ("pytest/mixed_colour", "pytest --color=yes -v", (3, 2, 3)),
    ("pytest/skipped", PYTEST, (0, 0, 2)),
    ("pytest/zero", PYTEST, (0, 0, 0)),
    ("pytest/no_file", "pytest nothere.py", (0, 0, 0)),
    ("pytest/deselected", "pytest -k 'ok or skip'", (1, 0, 1)),
    ("pytest/all_deselected", "pytest -q -k nothing", (0, 0, 0)),
    ("pytest/collect_only", "pytest -q", (0, 0, 0)),
    ("pytest/collect_only_loud", "pytest", (0, 0, 0)),
    ("pytest/maxfail", "pytest -x -rA", (2, 1, 0)),
    ("pytest/broken", PYTEST, (1, 1, 0)),
    ("pytest/crash", PYTEST, MISSING),
    ("pytest/fake", PYTEST, (1, 0, 0)),
    ("pytest/fake_unhidden", "pytest -s", CONTRADICTORY),
    ("pytest/sub", PYTEST, (1, 1, 0)),
    ("node/pass", "node --test", (2, 0, 0)),
    ("node/pass_spec", "npm test", (2, 0, 0)),
    ("node/mixed", "node --test", (3, 1, 2)),
    ("node/mixed_spec", "npm test", (3, 1, 2)),
    ("node/mixed_spec_colour", "npm test", (3, 1, 2)),
    ("node/mixed_dot", "node --test --test-reporter=dot", None),
    ("node/skipped", "node --test", (0, 0, 2)),
    ("node/skipped_spec", "npm test", (0, 0, 2)),
    ("node/zero", "node --test", (0, 0, 0)),
    ("node/zero_spec", "npm test", (0, 0, 0)),
    ("node/broken", "node --test", (3, 1, 0)),
    ("node/broken_spec", "npm test", (3, 1, 0)),
    ("node/crash", "node --test", (1, 0, 0)),
    ("node/crash_spec", "npm test", (1, 0, 0)),
    ("node/fake", "node --test", (1, 0, 0)),
    ("node/fake_spec", "npm test", (1, 0, 0)),
    ("jest/pass", "npx jest", (2, 0, 0)),
    ("jest/mixed", "npx jest", (2, 1, 2)),
    ("jest/mixed_verbose_colour", "npm test", (2, 1, 2)),
    ("jest/skipped", "npx jest", (0, 0, 2)),
    ("jest/zero", "npx jest", (0, 0, 0)),
    ("jest/zero_allowed", "npx jest --passWithNoTests", (0, 0, 0)),
    ("jest/broken", "npx jest", (3, 1, 0)),
    ("jest/crash", "npx jest", MISSING),
    ("jest/crash", "npm test", None),
    ("jest/fake", "npx jest", CONTRADICTORY),
    ("vitest/pass", "npx vitest run", (2, 0, 0)),
    ("vitest/mixed", "npx vitest run", (2, 1, 2)),
    ("vitest/mixed_dot", "npm test", (2, 1, 2)),
    ("vitest/mixed_verbose_colour", "npm test", (2, 1, 2)),
    ("vitest/skipped", "npx vitest run", (0, 0, 2)),
    ("vitest/zero", "npx vitest run", (0, 0, 0)),
    ("vitest/zero_allowed", "npx vitest run --passWithNoTests", (0, 0, 0)),
    ("vitest/broken", "npx vitest run", (3, 1, 0)),
    ("vitest/crash", "npx vitest run", (2, 1, 0)),
    ("vitest/empty", "npx vitest run", (1, 1, 0)),
    ("mocha/pass", "npx mocha", (2, 0, 0)),
    ("mocha/mixed", "npx mocha", (2, 1, 2)),
    ("mocha/mixed_dot", "npm test", (2, 1, 2)),
    ("mocha/mixed_colour", "npm test", (2, 1, 2)),
    ("mocha/skipped", "npx mocha", (0, 0, 2)),
    ("mocha/zero", "npx mocha", (0, 0, 0)),
    ("mocha/empty", "npx mocha", (0, 0, 0)),
    ("mocha/broken", "npx mocha", MISSING),
    ("mocha/crash", "npx mocha", MISSING),
    ("mocha/fake", "npx mocha", CONTRADICTORY),
    ("go/pass", "go test ./...", None),
    ("go/cached", "go test ./...", None),
    ("go/mixed", "go test ./...", None),
    ("go/zero", "go test ./...", (0, 0, 0)),
    ("go/none_match", "go test -run Nothing ./...", (0, 0, 0)),
    ("go/broken", "go test ./...", None),
    ("go/pass_v", "go test -v ./...", (2, 0, 0)),
    ("go/cached_v", "go test -v ./...", (2, 0, 0)),
    ("go/pass_json", "go test -json ./...", (2, 0, 0)),
    ("go/mixed_v", "go test -v ./...", (5, 1, 1)),
    ("go/mixed_json", "go test -json ./...", (5, 1, 1)),
    ("go/skipped_v", "go test -v ./...", (0, 0, 1)),
    ("go/skipped_json", "go test -json ./...", (0, 0, 1)),
    ("go/zero_v", "go test -v ./...", (0, 0, 0)),
    ("go/crash_v", "go test -v ./...", (2, 1, 0)),
    ("go/crash_json", "go test -json ./...", (2, 1, 0)),
    ("go/fake_v", "go test -v ./...", CONTRADICTORY),
    ("cargo/pass", "cargo test", (4, 0, 0)),
    ("cargo/mixed", "cargo test", (3, 1, 1)),
    ("cargo/mixed_quiet", "cargo test -q", (3, 1, 1)),
    ("cargo/filtered", "cargo test -- a", (1, 0, 0)),
    ("cargo/zero", "cargo test", (0, 0, 0)),
    ("cargo/broken", "cargo test", MISSING),
    ("cargo/crash", "cargo test", (1, 1, 0)),
    ("cargo/fake", "cargo test", (1, 0, 0)),
    ("cargo/fake_unhidden", "cargo test -- --nocapture", CONTRADICTORY),
    ("maven/pass", "mvn -o test", (3, 0, 0)),
    ("maven/mixed", "./mvnw test", (3, 2, 1)),
    ("maven/mixed_colour", "mvn test", (3, 2, 1)),
    ("maven/two_modules", "mvn -B test", (6, 2, 1)),
    ("maven/skipped", "mvn test", (0, 0, 1)),
    ("maven/zero", "mvn test", (0, 0, 0)),
    ("maven/switched_off", "mvn test -DskipTests", (0, 0, 0)),
    ("maven/quiet", "mvn -q test", None),
    ("maven/broken", "mvn test", None),
    ("maven/crash", "mvn test", (0, 0, 0)),
    ("gradle/pass", "./gradlew test", None),
    ("gradle/up_to_date", "gradle test", None),
    ("gradle/mixed", "gradle test", (3, 2, 1)),
    ("gradle/documented_newer", "gradle test", (242, 1, 3)),
    ("gradle/told", "gradle test", (2, 0, 1)),
    ("gradle/zero", "gradle test", (0, 0, 0)),
    ("gradle/broken", "gradle test", None),
    ("ctest/pass", "ctest", (2, 0, 0)),
    ("ctest/mixed", "cmake --build b && ctest --test-dir b", (3, 2, 2)),
    ("ctest/skipped", "ctest", (1, 0, 1)),
    ("ctest/skipped_quiet", "ctest -Q", None),
    ("ctest/zero", "ctest", (0, 0, 0)),
    ("ctest/broken", "ctest", (2, 1, 0)),
    ("rspec/pass", "bundle exec rspec", (2, 0, 0)),
    ("rspec/mixed", "rspec", (2, 1, 3)),
    ("rspec/mixed_doc_colour", "rspec --force-color", (2, 1, 3)),
    ("rspec/skipped", "rspec", (0, 0, 1)),
    ("rspec/zero", "rspec", (0, 0, 0)),
    ("rspec/broken", "rspec", (1, 1, 0)),
    ("rspec/crash", "rspec", MISSING),
    ("phpunit/pass", "vendor/bin/phpunit tests", (2, 0, 0)),
    ("phpunit/mixed", "phpunit tests", (4, 2, 2)),
    ("phpunit/mixed_colour", "phpunit --colors=always tests", (4, 2, 2)),
    ("phpunit/skipped", "phpunit tests", (1, 0, 1)),
    ("phpunit/zero", "phpunit tests", (0, 0, 0)),
    ("phpunit/broken", "phpunit tests", MISSING),
    ("phpunit/crash", "phpunit tests", MISSING),
    ("dotnet/documented_two_assemblies", "dotnet test", (25, 1, 2)),
    ("dotnet/documented_german", "dotnet test", (636, 0, 8)),
    ("dotnet/documented_old_form", "dotnet test -v n", (3009, 2, 43)),
    ("dotnet/documented_old_form_green", "dotnet test -v n", (5, 0, 0)),
    ("dotnet/documented_terminal_logger", "dotnet test", (9, 0, 3)),
    ("dotnet/documented_zero", "dotnet test", (0, 0, 0)),
    ("dotnet/documented_forged", "dotnet test", CONTRADICTORY),
    ("tap/tape_mixed", "node test/parse.js", (4, 1, 2)),
    ("tap/tape_pass", "npx tape test/*.js", (3, 0, 0)),
    ("tap/tape_crash", "node test/parse.js", (2, 1, 0)),
    ("tap/tape_cut", "node test/parse.js", MISSING),
    ("tap/tape_twice", "for f in test/*.js; do node $f || exit 1; done", (3, 0, 0)),
    ("tap/tape_zero", "tape test/*.js", (0, 0, 0)),
    ("tap/ava", "npx ava --tap", (3, 1, 2)),
    ("tap/node_tap", "node test/a.js", (4, 1, 2)),
    ("tap/node_tap_files", "npm test", (4, 1, 2)),
    ("tap/mocha", "npx mocha --reporter tap", (2, 1, 2)),
    ("tap/vitest", "npx vitest run --reporter=tap", (2, 1, 2)),
    ("tap/vitest_flat", "npm test", (3, 1, 2)),
    ("tap/prove", "prove t", (6, 1, 1)),
    ("tap/prove_pass", "make test", (2, 0, 0)),
    ("tap/prove_verbose", "prove -v t/b.t", (2, 0, 0)),
    ("tap/bats", "bats a.bats", (2, 1, 1)),
]
IDS = [f"{name}-{command}" for name, command, _ in CAPTURED]


def text(name: str) -> str:
    path = OUTPUTS / name
    return path.read_bytes().decode("utf-8", errors="replace") if path.exists() else ""


def streams(name: str) -> tuple[str, str]:
    return text(f"{name}.txt"), text(f"{name}.err.txt")


def told(found: Counts | Doubt | None) -> Truth:
    if isinstance(found, Counts):
        return found.ran, found.failed, found.skipped
    return found.reason if found else None


@pytest.mark.parametrize(("name", "command", "truth"), CAPTURED, ids=IDS)
def test_counts_are_those_of_the_real_run(name: str, command: str, truth: Truth) -> None:
    found = count_tests(command, *streams(name))
    assert told(found) == truth
    assert found is None or found.runner == name.partition("/")[0]


@pytest.mark.parametrize(("name", "command", "truth"), CAPTURED, ids=IDS)
def test_line_ends_of_windows_change_no_count(name: str, command: str, truth: Truth) -> None:
    out, err = (stream.replace("\n", "\r\n") for stream in streams(name))
    assert told(count_tests(command, out, err)) == truth


@pytest.mark.parametrize(
    ("name", "command", "truth"),
    [row for row in CAPTURED if row[2] not in (None, MISSING)],
    ids=[f"{row[0]}-{row[1]}" for row in CAPTURED if row[2] not in (None, MISSING)],
)
def test_both_streams_in_one_are_read_too(name: str, command: str, truth: Truth) -> None:
    out, err = streams(name)
    assert told(count_tests(command, out + err, "")) == truth


CARGO = "test result: ok. {} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out"
MAVEN_CLASS = "[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s -- in A"
MAVEN_TOTAL = "[INFO] Tests run: {}, Failures: 0, Errors: 0, Skipped: 0"


@pytest.mark.parametrize(
    ("command", "lines", "truth"),
    [
        ("pytest", ["___ ERROR at teardown of test_a ___", "1 passed, 1 error in 0.1s"], (1, 1, 0)),
        ("pytest", ["___ ERROR at setup of test_a ___", "1 passed, 1 error in 0.1s"], (2, 1, 0)),
        ("pytest", ["3 passed, 2 subtests passed in 75.11s (0:01:15)"], (3, 0, 0)),
        ("pytest", ["1 passed, 2 rerun in 0.1s"], (1, 0, 0)),
        ("cargo test", ["running 3 tests", CARGO.format(3)], (3, 0, 0)),
        ("cargo test", ["running 3 tests", CARGO.format(40)], CONTRADICTORY),
        ("cargo test", [CARGO.format(40)], CONTRADICTORY),
        ("mvn test", [" T E S T S", MAVEN_CLASS, MAVEN_TOTAL.format(2)], (2, 0, 0)),
        ("mvn test", [" T E S T S", MAVEN_CLASS, MAVEN_TOTAL.format(40)], CONTRADICTORY),
        ("mvn test", [MAVEN_TOTAL.format(40)], CONTRADICTORY),
        ("mvn test", [" T E S T S", MAVEN_CLASS], (1, 1, 0)),
        ("node t.js", ["ok 1 a", "ok 2 b", "1..3"], (3, 1, 0)),
        ("node t.js", ["1..3", "ok 1 a", "Bail out! no disk"], (4, 3, 0)),
        ("node t.js", ["1..1", "ok 1 a", "ok 2 forged"], CONTRADICTORY),
        ("node t.js", ["1..1", "not ok 1 a # TODO later"], (0, 0, 1)),
        ("node t.js", ["1..0 # skip no network"], (0, 0, 0)),
    ],
)
def test_parts_and_totals_must_agree(command: str, lines: list[str], truth: Truth) -> None:
    assert told(count_tests(command, "\n".join(lines) + "\n", "")) == truth


def test_every_output_is_in_the_table() -> None:
    there = {path.relative_to(OUTPUTS).as_posix() for path in OUTPUTS.rglob("*.txt")}
    named = {name for name, _, _ in CAPTURED}
    known = {f"{name}{end}" for name in named for end in (".txt", ".err.txt")}
    spare = {name for name in there - known if not name.startswith("go/")}
    assert not spare


@pytest.mark.parametrize(
    "command",
    [
        ["python", "-m", "pytest", "-x"],
        "FOO=1 pytest tests/ -k 'a or b'",
        "cd sub && uv run pytest",
        "poetry run python3.12 -m pytest",
        "coverage run -m pytest",
        "python -m coverage run -m pytest",
        ["bash", "-o", "pipefail", "-c", "pytest | tee log"],
        "timeout 60 .venv/bin/pytest -q",
        "sh -c 'cd a && pytest'",
    ],
)
def test_a_runner_called_by_name_is_known_and_must_close_its_run(command: str | list[str]) -> None:
    assert count_tests(command, "some output\n", "") == Doubt("pytest", MISSING)
    assert count_tests(command, "2 passed in 0.01s\n", "") == Counts("pytest", 2, 0, 0)


@pytest.mark.parametrize("command", ["make test", "./check.sh", ["python", "check.py"], "tox"])
def test_an_unknown_runner_is_never_guessed(command: str | list[str]) -> None:
    assert count_tests(command, "all 12 checks passed\nOK\n", "done: 12 tests\n") is None


def test_two_runners_of_one_command_are_summed() -> None:
    out = text("pytest/pass.txt")
    err = text("unittest/pass.err.txt")
    both = count_tests("pytest && python -m unittest", out, err)
    assert both == Counts("pytest+unittest", 5, 0, 0)
    assert count_tests("make test", out, err) == Doubt("unittest+pytest", CONTRADICTORY)


@pytest.mark.parametrize(
    "said",
    [
        "x = 3 passed in 0.01s",
        "   3 passed in 0.01s",
        "Ran 3 tests in 0.1s\n\nOK",
        "I ran 3 tests in 0.001s\nOK",
        "# tests 3\n# pass 3\n# fail 0",
        "Tests: 3 passed, 3 total",
        "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        "--- PASS: TestOne (0.00s)",
        "3 examples, 0 failures",
        "Tests run: 3, Failures: 0, Errors: 0, Skipped: 0",
    ],
)
def test_a_line_that_merely_looks_like_a_summary_is_no_count(said: str) -> None:
    found = count_tests("make test", said + "\n", said + "\n")
    assert not isinstance(found, Counts)


BASE = Counts("pytest", 12, 0, 1)


@pytest.mark.parametrize(
    ("now", "base", "allowance", "problem"),
    [
        (Counts("pytest", 12, 0, 1), BASE, Allowance(), None),
        (Counts("pytest", 13, 0, 0), BASE, Allowance(), None),
        (Counts("pytest", 1, 0, 9), None, Allowance(), None),
        (Counts("pytest", 9, 0, 1), BASE, Allowance(), "fewer tests ran: 9, on the base 12"),
        (Counts("pytest", 9, 0, 1), BASE, Allowance(fewer_tests_ok=2), "fewerTests: 3"),
        (Counts("pytest", 9, 0, 1), BASE, Allowance(fewer_tests_ok=3), None),
        (Counts("pytest", 12, 0, 2), BASE, Allowance(), "more tests are skipped: 2, on the base 1"),
        (Counts("pytest", 12, 0, 2), BASE, Allowance(more_skipped_ok=1), None),
        (Counts("pytest", 0, 0, 0), None, Allowance(), "no test ran (pytest: 0 run)"),
        (Counts("pytest", 0, 0, 0), Counts("pytest", 0, 0, 0), Allowance(), "no test ran"),
        (Counts("pytest", 0, 0, 12), BASE, Allowance(99, 99), "0 run, 12 skipped"),
        (Counts("pytest", 12, 1, 1), BASE, Allowance(), "but the exit code is 0"),
        (Counts("unittest", 12, 0, 1), BASE, Allowance(), "on the base with pytest"),
        (Doubt("pytest", MISSING), BASE, Allowance(), "summary is missing"),
        (Doubt("pytest", MISSING), None, Allowance(), "summary is missing"),
        (Doubt("jest", CONTRADICTORY), Doubt("jest", CONTRADICTORY), Allowance(), None),
        (Doubt("jest", MISSING), Doubt("jest", CONTRADICTORY), Allowance(), "in doubt"),
        (None, BASE, Allowance(), "no longer shows the number of tests that ran"),
        (None, None, Allowance(), None),
        (None, Doubt("pytest", MISSING), Allowance(), None),
    ],
)
def test_less_evidence_than_on_the_base_is_not_green(
    now: Counts | Doubt | None,
    base: Counts | Doubt | None,
    allowance: Allowance,
    problem: str | None,
) -> None:
    found = judge_counts(now, base, allowance)
    assert (found is None) == (problem is None)
    assert (problem or "") in (found or "")


@pytest.mark.more
def test_a_long_output_is_read_in_no_time() -> None:
    noise = "=" * 60 + " passed 1 failed in x\n  3 passing\nok 1 - a: b, c: 1, d! - e\n" + "-" * 70
    text_ = (noise + "\nRan 3 tests in\n# tests 4\n") * 20_000
    start = time.process_time()
    assert count_tests("make test", text_, text_) is None
    assert time.process_time() - start < 10


def test_no_output_makes_a_reader_fail() -> None:
    chance = random.Random(7)
    texts = [path.read_text(encoding="utf-8") for path in sorted(OUTPUTS.rglob("*.txt"))]
    lines = "\n".join(texts).split("\n")
    for _ in range(300):
        mixed = "\n".join(chance.choices(lines, k=40))
        found = count_tests("make test", mixed, mixed[::-1])
        assert found is None or isinstance(found, Counts | Doubt)
