"""The failures in the output of runners: names of failing tests, and the parts shown first."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from driver.runners.failures import failing_tests, failures_first, first_failure

OUTPUTS = Path(__file__).resolve().parents[1] / "support" / "runner_outputs"

NAMED: list[tuple[str, str, tuple[str, ...]]] = [
    ("pytest/mixed", "pytest", ("test_a.py::test_red", "test_a.py::test_err")),
    ("pytest/mixed_quiet", "make test", ("test_a.py::test_red", "test_a.py::test_err")),
    ("pytest/mixed_colour", "tox", ("test_a.py::test_red", "test_a.py::test_err")),
    ("pytest/mixed_xdist", "pytest -n 2", ("test_a.py::test_red", "test_a.py::test_err")),
    ("pytest/broken", "pytest", ("test_a.py",)),
    ("pytest/sub", "pytest", ("test_a.py::test_a",)),
    ("pytest/pass", "pytest", ()),
    ("pytest/skipped", "pytest", ()),
    (
        "unittest/mixed",
        "python -m unittest",
        (
            "test_err (test_a.A.test_err)",
            "test_red (test_a.A.test_red)",
            "test_xs (test_a.A.test_xs)",
        ),
    ),
    ("unittest/sub", "make test", ("test_a (test_a.A.test_a)",)),
    ("unittest/broken", "make", ("test_a (unittest.loader._FailedTest.test_a)",)),
    ("node/mixed", "node --test", ("red",)),
    ("node/mixed_spec", "npm test", ("red",)),
    ("node/mixed_spec_colour", "npm test", ("red",)),
    ("node/broken", "node --test", ("/project/a.test.js",)),
    ("node/skipped", "node --test", ()),
    ("jest/mixed", "npx jest", ("./a.test.js", "red")),
    ("jest/broken", "npx jest", ("./a.test.js", "Test suite failed to run")),
    ("jest/pass", "npx jest", ()),
    ("vitest/mixed", "npx vitest run", ("a.test.js > red",)),
    ("vitest/mixed_dot", "npm test", ("a.test.js > red",)),
    ("vitest/broken", "npx vitest run", ("a.test.js [ a.test.js ]",)),
    ("mocha/mixed", "npx mocha", ("red",)),
    ("mocha/mixed_dot", "npm test", ("red",)),
    ("go/mixed", "go test ./...", ("TestRed", "x")),
    ("go/mixed_v", "go test -v ./...", ("TestRed", "x")),
    ("go/mixed_json", "go test -json ./...", ("TestRed", "x")),
    ("go/broken", "make test", ("x",)),
    ("go/crash", "go test ./...", ("TestTwo", "x")),
    ("go/pass_v", "go test -v ./...", ()),
    ("cargo/mixed", "cargo test", ("t::b",)),
    ("cargo/mixed_quiet", "make", ("t::b",)),
    ("cargo/pass", "cargo test", ()),
    ("maven/mixed", "mvn test", ("ATest.err", "ATest.red")),
    ("maven/mixed_colour", "make", ("ATest.err", "ATest.red")),
    ("maven/pass", "mvn test", ()),
    ("gradle/mixed", "gradle test", ("ATest > err", "ATest > red")),
    ("ctest/mixed", "ctest", ("red", "crash")),
    ("rspec/mixed", "rspec", ("a red",)),
    ("phpunit/mixed", "phpunit", ("ATest::testErr", "ATest::testRed")),
    ("dotnet/documented_two_assemblies", "dotnet test", ("B.Tests.Adds",)),
    ("tap/tape_mixed", "node test/a.js", ("should be two",)),
    ("tap/ava", "npx ava --tap", ("red",)),
    ("tap/node_tap", "node t.js", ("inner red", "red")),
    ("tap/vitest_flat", "npm test", ("vi.test.mjs > s > red",)),
    ("tap/prove", "prove t", ("t/a.t",)),
    ("tap/bats", "bats .", ("red",)),
]


def streams(name: str) -> tuple[str, str]:
    paths = (OUTPUTS / f"{name}.txt", OUTPUTS / f"{name}.err.txt")
    out, err = (path.read_text("utf-8", "replace") if path.exists() else "" for path in paths)
    return out, err


@pytest.mark.parametrize(("name", "command", "names"), NAMED, ids=[one[0] for one in NAMED])
def test_failing_tests_are_named_as_the_runner_names_them(
    name: str, command: str, names: tuple[str, ...]
) -> None:
    assert failing_tests(command, *streams(name)) == names


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("FAILED a/test_b.py::test_c[x - y] - assert [1] == [2]", "a/test_b.py::test_c[x - y]"),
        ("FAILED a/test_b.py::T::test_c - TypeError: a - b", "a/test_b.py::T::test_c"),
        ("ERROR a/test_b.py - ImportError: no", "a/test_b.py"),
        ("a/test_b.py::test_c FAILED          [ 50%]", "a/test_b.py::test_c"),
        ("[gw1] [ 50%] FAILED a/test_b.py::test_c ", "a/test_b.py::test_c"),
        ("SUBFAILED[i=1] a/test_b.py::test_c - no", "a/test_b.py::test_c"),
    ],
)
def test_names_of_pytest_end_before_their_message(line: str, name: str) -> None:
    assert failing_tests("pytest", line, "") == (name,)


@pytest.mark.parametrize(
    "line", ["ERROR something is wrong", "ERROR    root:a.py:3 no", "FAILED to start", "not ok"]
)
def test_words_of_a_program_are_no_failing_test(line: str) -> None:
    assert failing_tests("make test", line, line) == ()


def padded(text: str) -> str:
    noise = "".join(f"line {number} of the noise of this run\n" for number in range(2_000))
    return f"first\n{noise}{text}\n{noise}last"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("pytest/mixed", "def test_red"),
        ("unittest/mixed", "FAIL: test_red"),
        ("node/mixed", "error: '1 == 2'"),
        ("jest/mixed", "expect(received).toBe(expected)"),
        ("mocha/mixed", "Error: x"),
        ("go/mixed", "x_test.go:6: x"),
        ("cargo/mixed", "explicit panic"),
        ("maven/mixed", "org.opentest4j.AssertionFailedError: x"),
        ("gradle/mixed", "AssertionError at ATest.java:1"),
        ("ctest/mixed", "2 - red (Failed)"),
        ("rspec/mixed", "expected: 2"),
        ("phpunit/mixed", "Failed asserting that 2 is identical to 1."),
        ("tap/tape_mixed", "expected: 2"),
    ],
)
def test_a_long_output_shows_its_failures_first(name: str, wanted: str) -> None:
    text = padded("\n".join(streams(name)))
    shown = failures_first(text, 12_000)
    assert len(shown) <= 12_000
    assert wanted in shown
    assert shown.index(wanted) < shown.index("first\n")
    assert shown.endswith("last")


@pytest.mark.parametrize(
    ("red", "green"),
    [
        ("tests/test_a.py::test_{} FAILED   [ 30%]", "tests/test_a.py::test_{} PASSED   [ 30%]"),
        ("[gw0] [ 30%] FAILED tests/test_a.py::test_{}", "[gw1] [ 31%] PASSED t/a.py::test_{} "),
        ("test a::b_{} ... FAILED", "test a::c_{} ... ok"),
        ("not ok {} - red", "ok {} - green"),
        ("--- FAIL: Test{} (0.00s)", "--- PASS: Test{} (0.00s)"),
    ],
)
def test_the_tests_around_a_failing_one_are_not_shown_with_it(red: str, green: str) -> None:
    around = "\n".join(green.format(f"1{number}") for number in range(40))
    blocks = "\n".join(f"{around}\n{red.format(number)}\n{around}" for number in range(4))
    shown = failures_first(padded(blocks), 12_000).partition("first\n")[0]
    assert all(red.format(number) in shown for number in range(4))
    assert green.format("10") not in shown


def test_many_failures_share_the_room() -> None:
    block = "___ test_{0} ___\n" + "    some code\n" * 40 + "E   assert {0} == 0\n"
    blocks = "".join(block.format(number) for number in range(60))
    shown = failures_first(padded(blocks), 12_000)
    assert len(shown) <= 12_000
    assert all(f"E   assert {number} == 0\n" in shown for number in range(60))


def test_more_failures_than_there_is_room_for_stay_bounded() -> None:
    blocks = "".join(f"E   assert {number} == 0\n" for number in range(9_000))
    assert len(failures_first(padded(blocks), 12_000)) <= 12_000


def test_a_short_output_and_one_without_marks_stay_as_they_are() -> None:
    assert failures_first("E   x\n", 100) == "E   x\n"
    shown = failures_first(padded("nothing known"), 12_000)
    assert len(shown) <= 12_000
    assert shown.startswith("first\n")
    assert shown.endswith("last")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nFAILED a.py::b - assert 1 == 2\n=== 1 failed ===\n", "FAILED a.py::b - assert 1 == 2"),
        ("a\n--- FAIL: TestX (0.00s)\n  x.go:1: no\nFAIL\n", "--- FAIL: TestX (0.00s)"),
        ("one\nlast word\n\n", "last word"),
        ("", ""),
    ],
)
def test_the_line_of_the_first_failure_is_found(text: str, line: str) -> None:
    assert first_failure(text) == line


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "piece",
    [
        "=" * 60 + " FAILED x - y\n    1) a\n       b\nnot ok 1 - a # x\n" + " " * 70 + "- " * 40,
        "x",
        "FAILED a::[[[ - ",
        "ERROR a.b::c",
        "a::b FAILED [ ",
        "[ERROR] a.b:c.1",
        '{"Action":"fail"',
        "  Failed x [",
        "  1) x\n         y\n",
        "not ok 1 - # # time= {",
        "\t1 - a (b) (",
        "a.b.c.Error",
        "_ ___ _",
    ],
)
def test_a_hostile_output_is_searched_in_no_time(piece: str) -> None:
    text = piece * (400_000 // len(piece))
    start = time.process_time()
    failures_first(text, 12_000)
    failing_tests("pytest", text, f"{text}\n")
    assert time.process_time() - start < 5
