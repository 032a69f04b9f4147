"""Runners are asked for reports of their own, which tell the counts that the output hides."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from driver.runners.counts import count_tests
from driver.runners.result import (
    CONTRADICTORY,
    REPORTED,
    Counts,
    Doubt,
    read_jest_json,
    read_junit,
)
from driver.verification.reports import Reports, counting

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="named pipes")

NESTED = """\
import subprocess, sys

import pytest


def test_calls_pytest():
    inner = [sys.executable, "-m", "pytest", "-q", "inner.py"]
    assert subprocess.run(inner, capture_output=True).returncode == 1


def test_calls_pytest_in_its_own_process():
    assert pytest.main(["-q", "inner.py"]) == 1
"""
FILES = {
    "a/test_a.py": "def test_one():\n    pass\n\n\ndef test_two():\n    pass\n",
    "b/test_b.py": "def test_three():\n    pass\n",
    "nested/test_n.py": NESTED,
    "nested/inner.py": "def test_inner():\n    assert 0\n",
    "red/test_r.py": "def test_red():\n    assert 0\n",
    "fake/test_f.py": (
        "import os\n\n\ndef test_f():\n"
        "    os.write(1, b'\\n9 passed in 0.01s\\n')\n    os._exit(0)\n"
    ),
    "Makefile": "test:\n\t@pytest -q a > log && pytest -q b >> log\nplain:\n\t@pytest -q a b\n",
    "run.sh": 'out=$(pytest -q a b 2>&1) || { echo "$out"; exit 1; }\n',
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "project"


def environment() -> dict[str, str]:
    bin_folder = Path(sys.executable).parent
    given = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    given["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # the plugins of this machine take seconds
    return {**given, "PATH": f"{bin_folder}{os.pathsep}{given['PATH']}", "COLUMNS": "80"}


def called(
    command: list[str], folder: Path, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env=variables,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def ran(command: str, project: Path) -> tuple[Counts | Doubt | None, str, int]:
    """The counts of a command, its output without notices, and its exit code."""
    with Reports(command, project, environment(), project.parent / "0f3a") as reports:
        done = called(["sh", "-c", command], project, reports.environment)
        found = reports.read()
        out, err = reports.without_notices(done.stdout), reports.without_notices(done.stderr)
    assert not (project.parent / "0f3a").exists()
    return count_tests(command, out, err, found), out + err, done.returncode


HIDDEN = [
    ("pytest a b", (3, 0, 0)),
    ('out=$(pytest a b) || { echo "$out"; exit 1; }', (3, 0, 0)),
    ("for d in a b; do (cd $d && pytest -q) || exit 1; done", (3, 0, 0)),
    ("make test", (3, 0, 0)),
    ("cd nested && pytest -q", (2, 0, 0)),
]
HIDDEN_TOO = [
    ("pytest -qq a b", (3, 0, 0)),
    ("python -m pytest -q a b > log || { cat log; exit 1; }", (3, 0, 0)),
    ("sh run.sh", (3, 0, 0)),
    ("make plain", (3, 0, 0)),
    ("for d in a b; do pytest -q $d > log.$d || exit 1; done", (3, 0, 0)),
    ("pytest -q a > log; cat log; cat log", (2, 0, 0)),
    ("pytest -q a && pytest -q b", (3, 0, 0)),
    ("make plain; pytest -q red > log", (4, 1, 0)),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("command", "counts"),
    [*HIDDEN, *(pytest.param(*one, marks=pytest.mark.sweep) for one in HIDDEN_TOO)],
)
def test_counts_are_reported_however_the_output_is_hidden(
    command: str, counts: tuple[int, int, int], project: Path
) -> None:
    found, _, _ = ran(command, project)
    assert found == Counts("pytest", *counts)
    assert isinstance(found, Counts)
    assert found.source == REPORTED


def test_the_output_is_the_same_with_and_without_a_report(project: Path) -> None:
    for command in ("pytest a b", "pytest -q red"):
        plain = called(["sh", "-c", command], project, environment())
        _, shown, code = ran(command, project)
        assert [line for line in shown.split("\n") if " in 0." not in line] == [
            line for line in plain.stdout.split("\n") if " in 0." not in line
        ]
        assert code == plain.returncode


def test_a_forged_summary_without_a_report_is_only_printed(project: Path) -> None:
    found, _, code = ran("pytest -q -s fake", project)
    assert (found, code) == (Counts("pytest", 9, 0, 0), 0)
    assert isinstance(found, Counts)
    assert found.source != REPORTED


def test_a_summary_that_no_report_has_is_a_contradiction(project: Path) -> None:
    found, _, _ = ran("pytest -q a > log; echo '9 passed in 0.01s'", project)
    assert found == Doubt("pytest", CONTRADICTORY)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "text", "command"),
    [
        ("pytest.ini", "[pytest]\naddopts = --junitxml=own.xml\n", "pytest -q a"),
        ("README", "", "pytest -q a --junitxml=own.xml"),
    ],
)
def test_a_project_with_a_report_of_its_own_keeps_it(
    name: str, text: str, command: str, project: Path
) -> None:
    (project / name).write_text(text)
    found, _, code = ran(command, project)
    assert (found, code) == (Counts("pytest", 2, 0, 0), 0)
    assert "test_one" in (project / "own.xml").read_text()


def test_a_runner_that_knows_no_report_breaks_and_that_is_seen(project: Path) -> None:
    (project / "Makefile").write_text("test:\n\tpytest -q -p no:junitxml a\n")
    with Reports("make test", project, environment(), project.parent / "0f3a") as reports:
        done = called(["make", "test"], project, reports.environment)
        assert done.returncode != 0
        assert reports.broke(done.stdout + done.stderr)
        assert not reports.broke("1 failed in 0.01s")


def test_other_runners_are_not_asked(project: Path) -> None:
    (project / "Makefile").write_text("test:\n\t./check\n")
    for command in ("cargo test", "make test", "sh check.sh", "./a.out"):
        with Reports(command, project, {"A": "b"}, project.parent / "0f3a") as reports:
            assert reports.environment == {"A": "b"}
            assert not reports.asked


def test_a_flood_into_the_pipe_ends_and_is_no_report(project: Path) -> None:
    name = "${PYTEST_ADDOPTS#*\\'}"
    command = f': pytest; name={name}; head -c 40000000 /dev/zero > "${{name%%\\\'*}}"'
    found, _, _ = ran(command, project)
    assert found is None


SUREFIRE = """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="ATest" time="0.1" tests="4" errors="1" skipped="1" failures="1">
  <properties><property name="java.version" value="17"/></properties>
  <testcase name="ok" classname="ATest" time="0.01"/>
  <testcase name="err" classname="ATest" time="0.01"><error message="y">y</error></testcase>
  <testcase name="red" classname="ATest" time="0.01"><failure message="x">x</failure></testcase>
  <testcase name="skip" classname="ATest" time="0"><skipped message="s"/></testcase>
</testsuite>
"""


@pytest.mark.parametrize(
    ("build", "folder", "command", "runner"),
    [
        ("pom.xml", "target/surefire-reports", "mvn -q test", "maven"),
        ("pom.xml", "core/target/surefire-reports", "make test", "maven"),
        ("build.gradle", "build/test-results/test", "./gradlew -q test", "gradle"),
        ("settings.gradle.kts", "app/build/test-results/test", "make test", "gradle"),
    ],
)
def test_reports_that_a_build_always_writes_are_read_if_they_are_new(
    build: str, folder: str, command: str, runner: str, project: Path
) -> None:
    (project / build).write_text("")
    (project / folder).mkdir(parents=True)
    old = project / folder / "TEST-Old.xml"
    old.write_text(SUREFIRE)
    os.utime(old, (1, 1))
    with Reports(command, project, {}, project.parent / "0f3a") as reports:
        (project / folder / "TEST-ATest.xml").write_text(SUREFIRE)
        found = reports.read()
    assert count_tests(command, "", "", found) == Counts(runner, 3, 2, 1)
    said = "[INFO] No tests to run.\n" if runner == "maven" else ""
    if said:
        assert count_tests(command, said, "", found) == Counts(runner, 0, 0, 0)


@pytest.mark.parametrize(
    "text", ["", "no report", "<a>", "<!DOCTYPE a [<!ENTITY b 'c'>]><testsuite/>"]
)
def test_a_damaged_report_is_none(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any of its words
        read_junit("pytest", text)


CASE = '<testcase classname="A" name="{}">{}</testcase>'


@pytest.mark.parametrize(
    ("cases", "counts"),
    [
        ([("a", ""), ("b", "<failure/>")], (2, 1, 0)),
        ([("a", "<failure/>"), ("a", "<error/>")], (1, 1, 0)),
        ([("a", "<failure/><failure/>")], (1, 1, 0)),
        ([("a", "<error/>"), ("b", "<error/>")], (2, 2, 0)),
        ([("a", "<skipped/>"), ("a", "")], (1, 0, 1)),
        ([("a", "<failure/>"), ("a", "<failure/>")], (2, 2, 0)),
        ([("a", "<rerunFailure/>"), ("b", "<system-out/>")], (2, 0, 0)),
        ([], (0, 0, 0)),
    ],
)
def test_a_report_is_counted_by_its_tests(
    cases: list[tuple[str, str]], counts: tuple[int, int, int]
) -> None:
    inner = "".join(CASE.format(name, child) for name, child in cases)
    text = f'<?xml version="1.0"?><testsuites><testsuite>{inner}</testsuite></testsuites>'
    assert read_junit("pytest", text) == Counts("pytest", *counts)


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("go test ./...", "go test ./... -v"),
        (("go", "test", "./..."), ("go", "test", "./...", "-v")),
        ("cd x && go test", "cd x && go test -v"),
        ("go test -v ./...", "go test -v ./..."),
        ("go test -json ./...", "go test -json ./..."),
        ("go test ./... -args -v", "go test ./... -args -v"),
        ("go test ./... > log", "go test ./... > log"),
        ("go vet ./...", "go vet ./..."),
        ("cargo test", "cargo test"),
        ("make test", "make test"),
    ],
)
def test_a_runner_that_prints_no_tests_is_called_with_its_option(
    command: str | tuple[str, ...], asked: str | tuple[str, ...]
) -> None:
    assert counting(command) == asked


JSON = " --json --outputFile={path}"
BOTH = " --reporter=default --reporter=json --outputFile.json={path}"


@pytest.mark.parametrize(
    ("command", "files", "asked"),
    [
        ("jest --ci", {}, f"jest --ci{JSON}"),
        ("npx vitest run", {}, f"npx vitest run{BOTH}"),
        ("npm test", {"package.json": '{"scripts": {"test": "jest"}}'}, f"npm test --{JSON}"),
        ("cd web && yarn unit", {"web/package.json": '{"scripts": {"unit": "vitest"}}'},
         f"cd web && yarn unit{BOTH}"),
        ("npm test", {"package.json": '{"scripts": {"test": "jest > log"}}'}, ""),
        ("npm test", {"package.json": '{"scripts": {"test": "npm run a", "a": "jest"}}'}, ""),
        ("jest --json", {}, ""),
        ("jest | cat", {}, ""),
        ("vitest run --reporter=dot", {}, ""),
        ("vitest run", {"vitest.config.ts": "export default { test: { reporters: [] } }"}, ""),
        ("mocha", {}, ""),
    ],
)  # fmt: skip
def test_arguments_ask_a_runner_whose_call_ends_the_command(
    command: str, files: dict[str, str], asked: str, tmp_path: Path
) -> None:
    for name, text in files.items():
        path = tmp_path / "it" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    place = tmp_path / "place"
    with Reports(command, tmp_path / "it", {}, place) as reports:
        assert reports.command == (asked.format(path=place / "results") or command)
        assert reports.asked == bool(asked)
        path = place / "results"
        printed = (
            f"> jest --ci --json --outputFile={path}\n"
            f"Test results written to: ../x/{path.relative_to(tmp_path)}\nTests: 1 passed\n"
        )
        if asked.endswith(JSON):
            assert reports.without_notices(printed) == "> jest --ci\nTests: 1 passed\n"
            assert not reports.broke(reports.without_notices(printed))
            assert reports.broke(printed)


REPORT = (
    '{"numPassedTests": 3, "numFailedTests": 0, "numPendingTests": 1, "numTodoTests": 1,'
    ' "numTotalTests": 5, "success": true, "testResults": [{"status": "passed"}]}'
)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        (REPORT, Counts("jest", 3, 0, 2)),
        (REPORT.replace('"numFailedTests": 0', '"numFailedTests": 2'), Counts("jest", 5, 2, 2)),
        (REPORT.replace('"status": "passed"', '"status": "failed"'), Counts("jest", 4, 1, 2)),
        ("[]", None),
        ("{}", None),
        (REPORT.replace("3", '"3"'), None),
        (REPORT[:-1], None),
    ],
)
def test_a_report_of_jest_or_vitest_is_counted_by_its_numbers(
    text: str, counts: Counts | None
) -> None:
    if counts is None:
        with pytest.raises(ValueError, match=r"."):
            read_jest_json("jest", text)
    else:
        found = read_jest_json("jest", text)
        assert (found, found.source) == (counts, REPORTED)


def test_several_reports_in_one_pipe_are_added_up(tmp_path: Path) -> None:
    with Reports("jest", tmp_path, {}, tmp_path / "place") as reports:
        for _ in range(2):
            (tmp_path / "place" / "results").write_text(REPORT.replace(" ", "") + "\n")
        assert reports.read() == {"jest": (Counts("jest", 3, 0, 2),) * 2}


def test_a_report_more_than_there_are_summaries_is_forged() -> None:
    printed = (
        "Test Suites: 1 passed, 1 total\nTests:       1 passed, 1 total\nSnapshots:   0 total\n"
    )
    printed += "Time:        0.1 s\n"
    own, forged = Counts("jest", 1, 0, 0, REPORTED), Counts("jest", 2, 0, 0, REPORTED)
    counts = Counts("jest", 1, 0, 0)
    for reports in ((forged, own), (own,)):
        assert count_tests("npm test", "", printed, {"jest": reports}) == counts
    assert count_tests("npm test", printed * 2, "", {"jest": (own, own)}) == Counts("jest", 2, 0, 0)
