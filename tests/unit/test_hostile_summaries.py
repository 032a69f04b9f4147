"""What a test prints is anybody's: no summary, however odd, is more than a doubt."""

from __future__ import annotations

import pytest

from driver.runners.counts import Counts, Doubt, count_tests

PASSED = "1 passed in 0.01s"


@pytest.mark.parametrize(
    "line",
    [
        '{"user": {"Action": 1}, "Test": "x"}',
        '{"Action": ["fail"], "Test": "x"}',
        '{"Action": "fail", "Package": ["x"], "Test": "x"}',
        '{"Action": "fail", "Package": "x", "Test": ["x"]}',
        '{"Action": "login", "Package": "x"}',
        '{"Action": ' + "[" * 100_000,
    ],
    ids=["nested", "a list", "odd package", "odd test", "another's word", "too deep"],
)
def test_a_log_in_json_is_not_taken_for_gos_events(line: str) -> None:
    assert count_tests("make test", f"{line}\n{PASSED}", "") == Counts("pytest", 1, 0, 0)


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("pytest", "{n} passed in 0.01s"),
        ("cargo test", "running {n} tests"),
        ("ctest", "100% tests passed, {n} tests failed out of {n}"),
        ("mvn test", "T E S T S\nTests run: {n}, Failures: 0, Errors: 0, Skipped: 0"),
        ("gradle test", "{n} tests completed, 1 failed"),
        ("rspec", "Finished in 1 second\n{n} examples, 0 failures"),
        ("phpunit", "OK ({n} tests, 1 assertions)"),
        ("dotnet test", "Test summary: total: 1, failed: {n}, succeeded: 0, skipped: 0"),
    ],
)
def test_a_number_without_end_is_a_doubt(command: str, printed: str) -> None:
    found = count_tests(command, printed.format(n="9" * 5_000), "")
    assert isinstance(found, Doubt)
