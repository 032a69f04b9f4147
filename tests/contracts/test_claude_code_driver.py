"""The contract for Claude Code, with a stand-in that speaks lines taken from the real program."""

from __future__ import annotations

import json

import pytest

from driver.backend_api.driver import FAILURE_AGENT, FAILURE_COULD_NOT_RUN, Usage
from driver.backend_api.provider_fault import FaultKind
from driver.backends.claude_code import ClaudeCodeDriver
from state_store.documents.errors import InputError
from tests.contracts.driver_contract import (
    PARENT,
    SECRET,
    FaultContract,
    Place,
    Plan,
    ProgramDriverContract,
)

SPEECH = """
for line in plan["lines"]:
    print(line)
sys.exit(plan["exit"])
"""
FAULTS: dict[FaultKind | None, dict[str, object]] = {
    FaultKind.BAD_KEY: {"api_error_status": 401, "result": "Invalid API key"},
    FaultKind.NO_CREDIT: {"api_error_status": 400, "result": "Credit balance is too low"},
    FaultKind.UNKNOWN_MODEL: {
        "api_error_status": 404,
        "result": "There's an issue with the selected model (m). It may not exist.",
    },
    FaultKind.USAGE_LIMIT: {"api_error_status": 429, "result": "Claude usage limit reached|1"},
    FaultKind.OVERLOADED: {"api_error_status": 529, "result": "Overloaded"},
    FaultKind.RATE_LIMITED: {"api_error_status": 429, "result": "Too many requests"},
}
ANSWER = {"type": "assistant", "message": {"id": "m", "usage": {"input_tokens": 11}}}
INIT = {"type": "system", "subtype": "init", "model": "claude-haiku-4-5", "permissionMode": "x"}


def result_line(plan: Plan, **changes: object) -> dict[str, object]:
    usage = plan.usage
    models = {
        "claude-haiku-4-5": {
            "inputTokens": usage.input_tokens if usage else 0,
            "outputTokens": usage.output_tokens if usage else 0,
            "cacheReadInputTokens": 0,
            "cacheCreationInputTokens": 0,
        }
    }
    return {
        "type": "result",
        "subtype": "success",
        "is_error": plan.fails,
        "api_error_status": 400 if plan.fails else None,
        "result": "API Error: 400 it went wrong" if plan.fails else "Done.",
        "total_cost_usd": usage.cost_usd if usage else 0,
        "modelUsage": models,
        "permission_denials": [],
        **changes,
    }


def speaking(place: Place, plan: Plan, lines: list[object], code: int = 0) -> tuple[str, ...]:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    failed = result_line(Plan(fails=True, usage=None), **FAULTS.get(plan.fault, {}))
    said = [json.dumps(INIT), json.dumps(failed)] if plan.fault else []
    return place.program(plan, SPEECH, lines=texts, exit=code, fault_lines=said)


class TestClaudeCodeDriver(ProgramDriverContract, FaultContract):
    def driver(self, place: Place, plan: Plan, **options: object) -> ClaudeCodeDriver:
        program = speaking(place, plan, [INIT, result_line(plan)], int(plan.fails))
        return ClaudeCodeDriver(program=program, environ=PARENT, **options)  # type: ignore[arg-type]

    def without_program(self, place: Place) -> ClaudeCodeDriver:
        return ClaudeCodeDriver(program="no-such-claude", environ=PARENT)

    def test_it_promises_what_the_source_promised(self) -> None:
        driver = ClaudeCodeDriver()
        capabilities = driver.probe_capabilities()
        assert (driver.name, capabilities.name) == ("claude-code", "claude-code")
        assert capabilities.structured_output
        assert capabilities.worktree_isolation
        assert capabilities.native_cost_tracking
        assert capabilities.native_stall_detection
        assert (capabilities.tool_use_accuracy, capabilities.recommended_verification_tier) == (
            0.99,
            1,
        )
        assert capabilities.available_models == ("haiku", "sonnet", "opus")
        models = [driver.resolve_model(role) for role in ("worker", "setup", "verify", "other")]
        assert models == ["haiku", "sonnet", "haiku", "haiku"]

    def test_the_command_line_bounds_turns_tools_and_settings(self, place: Place) -> None:
        driver = self.driver(place, Plan(), max_turns=7, extra_args=("--effort", "low"))
        driver.dispatch_worker(place.request("the prompt", model="opus"))
        argv = json.loads(place.seen_file.read_text(encoding="utf-8"))["argv"]
        allowed = argv[argv.index("--allowedTools") + 1 : argv.index("--tools")]
        assert " ".join(word for word in argv if word not in allowed) == (
            "-p --output-format stream-json --verbose --permission-mode acceptEdits "
            "--allowedTools --tools Read,Write,Edit,Bash --model opus --max-turns 7 "
            "--setting-sources user --no-session-persistence --strict-mcp-config --effort low"
        )
        assert "IS_SANDBOX" not in place.environment

    def test_outside_of_walls_it_may_run_its_test_and_read_git(self, place: Place) -> None:
        commands = ("python3 -m unittest 'a b'", "two\nlines")
        self.driver(place, Plan()).dispatch_worker(place.request(commands=commands))
        argv = json.loads(place.seen_file.read_text(encoding="utf-8"))["argv"]
        allowed = argv[argv.index("--allowedTools") + 1 : argv.index("--tools")]
        assert allowed[0] == "Bash(python3 -m unittest 'a b')"
        assert {"Bash(git diff:*)", "Bash(mypy:*)"} <= set(allowed)
        assert not [word for word in allowed if "lines" in word or word.startswith("Bash(git c")]

    def test_inside_of_walls_it_may_do_all(self, place: Place) -> None:
        self.driver(place, Plan()).dispatch_worker(place.request(is_enclosed=True))
        argv = json.loads(place.seen_file.read_text(encoding="utf-8"))["argv"]
        assert argv[argv.index("--permission-mode") + 1] == "bypassPermissions"
        assert "--allowedTools" not in argv
        assert place.environment["IS_SANDBOX"] == "1"

    def test_the_projects_own_settings_are_loaded_only_on_request(self, place: Place) -> None:
        self.driver(place, Plan()).dispatch_worker(place.request(whole_project=True))
        argv = json.loads(place.seen_file.read_text(encoding="utf-8"))["argv"]
        assert argv[argv.index("--setting-sources") + 1] == "user,project,local"
        assert "--strict-mcp-config" not in argv

    def test_a_reviewer_has_no_tool_that_writes(self, place: Place) -> None:
        self.driver(place, Plan()).dispatch_worker(place.request(role="verify"))
        argv = json.loads(place.seen_file.read_text(encoding="utf-8"))["argv"]
        assert argv[argv.index("--tools") + 1] == "Read,Grep,Glob"

    def test_a_schema_is_asked_for_and_its_object_handed_on(self, place: Place) -> None:
        lines = [INIT, result_line(Plan(), structured_output={"verdict": "pass"})]
        program = speaking(place, Plan(), lines)
        driver = ClaudeCodeDriver(program=program, environ=PARENT)
        result = driver.dispatch_worker(place.request(result_schema={"type": "object"}))
        argv = json.loads(place.seen_file.read_text(encoding="utf-8"))["argv"]
        assert argv[-2:] == ["--json-schema", '{"type": "object"}']
        assert (result.ok, result.structured) == (True, {"verdict": "pass"})

    def test_a_schema_that_was_not_followed_is_a_failed_dispatch(self, place: Place) -> None:
        request = place.request(result_schema={"type": "object"})
        result = self.driver(place, Plan()).dispatch_worker(request)
        assert (result.ok, result.failure) == (False, FAILURE_AGENT)
        assert "structured" in (result.error or "")

    def test_its_account_and_its_bounds_are_in_its_environment(self, place: Place) -> None:
        parent = {**PARENT, "ANTHROPIC_API_KEY": "sk-ant", "CLAUDECODE": "1"}
        program = speaking(place, Plan(), [INIT, result_line(Plan())])
        ClaudeCodeDriver(program=program, environ=parent).dispatch_worker(place.request())
        seen = place.environment
        assert seen["ANTHROPIC_API_KEY"] == "sk-ant"
        assert seen["CLAUDE_CODE_MAX_RETRIES"] == "1"
        assert seen["DISABLE_AUTOUPDATER"] == "1"
        assert "CLAUDECODE" not in seen
        assert SECRET not in seen.values()

    def test_a_bound_that_the_settings_name_comes_from_the_parent(self, place: Place) -> None:
        program = speaking(place, Plan(), [INIT, result_line(Plan())])
        parent = {**PARENT, "API_TIMEOUT_MS": "5000"}
        driver = ClaudeCodeDriver(program=program, environ=parent, env=("API_TIMEOUT_MS",))
        driver.dispatch_worker(place.request())
        assert place.environment["API_TIMEOUT_MS"] == "5000"

    @pytest.mark.parametrize("code", [0, 1])
    def test_no_result_line_is_a_failure_whatever_the_exit_code(
        self, place: Place, code: int
    ) -> None:
        program = speaking(place, Plan(), [INIT, ANSWER], code)
        result = ClaudeCodeDriver(program=program, environ=PARENT).dispatch_worker(place.request())
        assert (result.ok, result.failure) == (False, FAILURE_AGENT)
        assert result.usage == Usage(least_tokens=11)
        assert "without a result" in (result.error or "")

    @pytest.mark.parametrize(
        "ending",
        [
            (),
            ({"is_error": True, "total_cost_usd": 0, "result": "words that nobody knows"},),
            ({"is_error": True, "total_cost_usd": None, "modelUsage": {}, "result": "unheard of"},),
            (
                {
                    "is_error": True,
                    "usage": {"input_tokens": 0, "output_tokens": 0},
                    "errors": ["x"],
                },
            ),
        ],
    )
    def test_a_session_without_any_answer_could_not_run_whatever_its_words(
        self, place: Place, ending: tuple[dict[str, object], ...]
    ) -> None:
        said = {"type": "assistant", "message": {"model": "<synthetic>", "usage": {}}}
        lines = [INIT, said, *({"type": "result", **one} for one in ending)]
        program = speaking(place, Plan(), lines, 1)
        result = ClaudeCodeDriver(program=program, environ=PARENT).dispatch_worker(place.request())
        assert (result.ok, result.failure) == (False, FAILURE_COULD_NOT_RUN)
        assert result.fault is not None
        assert result.fault.did_nothing

    def test_a_program_that_never_began_a_session_could_not_run(self, place: Place) -> None:
        program = speaking(place, Plan(), ["error: unknown option '--tools'"], 1)
        result = ClaudeCodeDriver(program=program, environ=PARENT).dispatch_worker(place.request())
        assert result.failure == FAILURE_COULD_NOT_RUN
        assert "unknown option" in (result.error or "")

    def test_a_result_beyond_what_is_kept_in_memory_is_still_read(self, place: Place) -> None:
        noise = [{"type": "user", "text": "x" * 50_000}] * 4
        tail = [{"type": "system", "subtype": "later", "text": "y" * 50_000}]
        program = speaking(place, Plan(), [INIT, *noise, result_line(Plan()), *tail])
        result = ClaudeCodeDriver(program=program, environ=PARENT).dispatch_worker(place.request())
        assert (result.ok, result.text, result.model) == (True, "Done.", "claude-haiku-4-5")

    def test_a_success_with_a_failing_exit_code_is_no_success(self, place: Place) -> None:
        program = speaking(place, Plan(), [INIT, result_line(Plan())], 3)
        result = ClaudeCodeDriver(program=program, environ=PARENT).dispatch_worker(place.request())
        assert (result.ok, result.failure) == (False, FAILURE_AGENT)

    def test_no_turns_at_all_is_refused_because_the_cli_reads_it_as_no_limit(self) -> None:
        with pytest.raises(InputError, match="max_turns"):
            ClaudeCodeDriver(max_turns=0)
