"""How what was seen is judged: each check's every level, from a table."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from driver.backend_api.driver import (
    AgentDriver,
    CommandResult,
    DriverCapabilities,
    WorkerRequest,
    WorkerResult,
    WorkerStatus,
)
from driver.backends.claude_code import login_of_claude
from driver.backends.cli.cli_driver import examine_cli
from driver.backends.cli.local_driver import Ask
from driver.backends.codex_cli import login_of_codex
from driver.backends.http.server import judge_models
from driver.diagnostics.machine import (
    CLOCK_SLACK_S,
    LITTLE_BYTES,
    MIB,
    NO_CLOCK_BEFORE,
    SCARCE_BYTES,
    judge_clock,
    judge_cores,
    judge_disk,
    judge_sandbox,
)
from driver.execution.processes import Ending, Finished
from driver.terminal.check_result import (
    CheckResult,
    Level,
    failed,
    failed_as,
    masked,
    passed,
    warned,
)
from driver.walls.choice import Chosen
from driver.walls.wall import Level as Walled
from driver.walls.wall import Means

NOW = 1_900_000_000.0


@pytest.mark.parametrize(
    ("check", "line"),
    [
        (passed("git", "2.39"), "ok    git  2.39"),
        (warned("a.b", "so\nso", "do"), "warn  a.b  so\\nso  -> do"),
        (failed("x", "y", "z"), "fail  x  y  -> z"),
    ],
)
def test_a_check_is_one_line_with_its_remedy_at_the_end(check: CheckResult, line: str) -> None:
    assert str(check) == line


@pytest.mark.parametrize(
    ("sentence", "detail", "remedy"),
    [
        ("p was not found; install it: now", "p was not found", "install it: now"),
        ("/r has no commit yet: make one first", "/r has no commit yet", "make one first"),
        ("a: b: c", "a: b", "c"),
        ("it is broken", "it is broken", "correct this first"),
    ],
)
def test_a_sentence_of_ours_is_told_with_its_remedy_apart(
    sentence: str, detail: str, remedy: str
) -> None:
    assert failed_as("n", sentence) == CheckResult("n", Level.FAIL, detail, remedy)


def test_a_secret_is_shown_in_no_line_and_in_no_document() -> None:
    told = warned("n", "said sk-12345-long and sk-12345", "unset sk-12345-long")
    (hidden,) = masked([told], ["", "said", "sk-12345", "sk-12345-long"])
    assert str(hidden) == "warn  n  said *** and ***  -> unset ***"
    assert masked([told], []) == (told,)


@pytest.mark.parametrize(
    ("means", "shown", "judged"),
    [
        (Means(Walled.BWRAP, program="/usr/bin/bwrap"), "bwrap (/usr/bin/bwrap)", Level.OK),
        (Means(Walled.LANDLOCK, landlock_abi=7), "landlock-7; bwrap: it was not", Level.OK),
        (Means(Walled.LIMITS), "limits; bwrap: it was not found on PATH: agents", Level.WARN),
        (Means(Walled.NONE), "none; ", Level.WARN),
    ],
)
def test_the_level_of_the_machine_is_told(means: Means, shown: str, judged: Level) -> None:
    check = judge_sandbox(Chosen(means))
    assert check.level is judged
    assert check.detail.startswith(shown)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is one remedy for all")
@pytest.mark.parametrize(
    ("problem", "word"),
    [
        ("", "install bubblewrap"),
        ("bwrap: setting up uid map: Permission denied", "apparmor_restrict"),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "apparmor_restrict"),
        ("bwrap: No permissions to create new namespace", "apparmor_restrict"),
    ],
)
def test_a_denied_bwrap_and_a_missing_one_have_different_remedies(problem: str, word: str) -> None:
    passed_over = (problem,) if problem else ()
    assert word in judge_sandbox(Chosen(Means(Walled.LIMITS), passed_over)).remedy


def test_a_level_that_was_named_is_not_compared_with_a_stronger_one() -> None:
    named = judge_sandbox(Chosen(Means(Walled.LANDLOCK, landlock_abi=7)), by_choice=True)
    assert named.detail == "landlock-7"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is one remedy for all")
@pytest.mark.parametrize("level", [Walled.LIMITS, Walled.NONE])
def test_the_remedy_of_a_weak_level_that_was_named_is_the_setting(level: Walled) -> None:
    remedy = judge_sandbox(Chosen(Means(level)), by_choice=True).remedy
    assert "[sandbox] level" in remedy
    assert "bubblewrap" not in remedy


@pytest.mark.parametrize(
    ("wanted", "level"), [(None, Level.OK), (2, Level.OK), (1, Level.OK), (3, Level.WARN)]
)
def test_more_tests_at_once_than_cores_are_warned_of(wanted: int | None, level: Level) -> None:
    assert judge_cores(2, wanted).level is level


@pytest.mark.parametrize(
    ("now_s", "newest_s", "level"),
    [
        (NOW, None, Level.OK),
        (NOW, NOW - 5, Level.OK),
        (NOW, NOW + CLOCK_SLACK_S, Level.OK),
        (NOW, NOW + CLOCK_SLACK_S + 1, Level.FAIL),
        (5.0, None, Level.FAIL),
        (NO_CLOCK_BEFORE - 1, None, Level.FAIL),
    ],
)
def test_a_clock_that_was_never_set_or_went_back_fails(
    now_s: float, newest_s: float | None, level: Level
) -> None:
    assert judge_clock(now_s, newest_s).level is level


@pytest.mark.parametrize(
    ("free_bytes", "free_files", "level"),
    [
        (LITTLE_BYTES, None, Level.OK),
        (LITTLE_BYTES, 10_000, Level.OK),
        (LITTLE_BYTES - 1, 10_000, Level.WARN),
        (SCARCE_BYTES, None, Level.WARN),
        (SCARCE_BYTES - 1, None, Level.FAIL),
        (100 * LITTLE_BYTES, 9_999, Level.FAIL),
    ],
)
def test_a_full_disk_fails_and_a_nearly_full_one_warns(
    free_bytes: int, free_files: int | None, level: Level
) -> None:
    assert judge_disk("disk", Path("/d"), free_bytes, free_files).level is level


def test_room_is_told_in_mebibytes() -> None:
    assert "2,048 MiB free" in judge_disk("disk", Path("/d"), 2048 * MIB, None).detail


MODELS = json.dumps({"object": "list", "data": [{"id": "coder-7b"}, {"id": "other"}]}).encode()


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, MODELS, {"endpoint": "ok", "model": "ok"}),
        (200, b'[{"id": "coder-7b"}]', {"endpoint": "ok", "model": "ok"}),
        (200, b'{"data": []}', {"endpoint": "ok", "model": "warn"}),
        (200, b"<html>", {"endpoint": "warn"}),
        (200, b"[" * 100_000, {"endpoint": "warn"}),
        (200, b'{"data": 5}', {"endpoint": "warn"}),
        (200, b'{"data": [5, {"id": 6}]}', {"endpoint": "ok", "model": "warn"}),
        (401, b"sk-secret is no key", {"endpoint": "ok", "key": "fail"}),
        (403, b"", {"endpoint": "ok", "key": "fail"}),
        (404, b"", {"endpoint": "warn"}),
        (302, b"", {"endpoint": "fail"}),
        (400, b"", {"endpoint": "fail"}),
        (429, b"", {"endpoint": "warn"}),
        (503, b"", {"endpoint": "warn"}),
    ],
)
def test_what_a_server_answers_is_told_apart(
    status: int, body: bytes, expected: dict[str, str]
) -> None:
    checks = judge_models("http://127.0.0.1:1/v1", status, body, ["coder-7b", "coder-7b"])
    assert {check.name: check.level for check in checks} == expected
    assert not any("sk-secret" in str(check) for check in checks)


def test_a_model_that_is_not_listed_is_told_with_the_nearest_ones() -> None:
    checks = judge_models("s", 200, MODELS, ["coder-8b"])
    assert "does not list coder-8b" in checks[-1].detail
    assert checks[-1].remedy.endswith("it lists coder-7b, other")


class Cli:
    """A CLI that answers from a table, and remembers what it was asked."""

    def __init__(self, **answers: tuple[int, str]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, *words: str) -> Finished:
        self.asked.append(" ".join(words))
        name = "_".join(word.strip("-") for word in words)
        code, text = self.answers.get(name, (1, ""))
        return Finished(Ending.EXITED, code, text, "", 0.1)


HELP = (0, "Usage: claude auth status [options]\n")


@pytest.mark.parametrize(
    ("status", "level", "word"),
    [
        ((0, '{"loggedIn": true, "authMethod": "api_key"}'), Level.OK, "api_key"),
        ((1, '{"loggedIn": false, "authMethod": "none"}'), Level.FAIL, "not logged in"),
        ((0, "[]"), Level.WARN, "[]"),
        ((3, ""), Level.WARN, "exit 3"),
    ],
)
def test_what_claude_says_of_its_login_is_believed(
    status: tuple[int, str], level: Level, word: str
) -> None:
    check = login_of_claude(Cli(auth_status_help=HELP, auth_status=status))
    assert check.level is level
    assert word in check.detail


CODEX_HELP = (0, "Usage: codex login status [OPTIONS]\n")


@pytest.mark.parametrize(
    ("answers", "has_key", "level", "word"),
    [
        ({}, True, Level.OK, "key"),
        ({}, False, Level.WARN, "cannot check it"),
        ({"login_status": (0, "Logged in using ChatGPT")}, False, Level.OK, "ChatGPT"),
        ({"login_status": (1, "Not logged in")}, False, Level.FAIL, "Not logged in"),
    ],
)
def test_what_codex_says_of_its_login_is_believed(
    answers: dict[str, tuple[int, str]], has_key: bool, level: Level, word: str
) -> None:
    helps = {"login_status_help": CODEX_HELP} if answers else {}
    cli = Cli(**helps, **answers)
    check = login_of_codex(cli, has_key=has_key)
    assert check.level is level
    assert word in check.detail
    assert "login status" not in cli.asked or answers


def test_a_claude_that_knows_no_auth_command_is_not_given_one_for_a_prompt() -> None:
    cli = Cli(auth_status_help=(0, "Usage: claude [options] [command] [prompt]\n"))
    assert login_of_claude(cli).level is Level.WARN
    assert cli.asked == ["auth status --help"]


def test_a_program_that_does_not_run_is_not_asked_for_its_login() -> None:
    def login(ask: Ask) -> CheckResult:
        raise AssertionError(ask)

    (check,) = examine_cli("/bin/x", Cli(version=(127, "no node")), login)
    assert (check.level, check.name) == (Level.FAIL, "program")
    assert "no node" in check.detail


def test_a_program_tells_its_version() -> None:
    (check,) = examine_cli("/bin/x", Cli(version=(0, "1.2.3\nmore\n")))
    assert check == passed("program", "/bin/x: 1.2.3")


class Foreign(AgentDriver):
    """A backend written elsewhere, which knows nothing of examinations."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self._problems = problems

    def probe_capabilities(self) -> DriverCapabilities:
        return DriverCapabilities("foreign")

    def dispatch_worker(self, request: WorkerRequest) -> WorkerResult:
        raise NotImplementedError

    def worker_status(self, worker_id: str) -> WorkerStatus:
        raise NotImplementedError

    def run_command(
        self, command: object, cwd: str | None = None, shell: bool | None = None
    ) -> CommandResult:
        raise NotImplementedError

    def resolve_model(self, role: str) -> str:
        raise NotImplementedError

    def readiness_problems(self) -> tuple[str, ...]:
        return self._problems


@pytest.mark.parametrize(
    ("problems", "expected"),
    [
        ((), [Level.OK]),
        (("no key; set it", "no net; plug it in"), [Level.FAIL, Level.FAIL]),
    ],
)
def test_a_backend_with_the_five_operations_is_examined_by_its_readiness(
    problems: tuple[str, ...], expected: list[Level]
) -> None:
    assert [check.level for check in Foreign(problems).examine()] == expected
