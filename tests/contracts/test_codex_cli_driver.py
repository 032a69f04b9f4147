"""The contract for the Codex program, with a stand-in that speaks lines taken from the real one."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from driver.backend_api.driver import FAILURE_AGENT, FAILURE_COULD_NOT_RUN, Usage
from driver.backend_api.models import Price
from driver.backend_api.provider_fault import FaultKind
from driver.backends.codex_cli import CodexCliDriver
from tests.contracts.driver_contract import (
    PARENT,
    FaultContract,
    Place,
    Plan,
    ProgramDriverContract,
)

STREAMS = Path(__file__).parents[1] / "support" / "codex_streams"
SPEECH = """
for line in plan["lines"]:
    print(line)
sys.stderr.write(plan["said"])
sys.exit(plan["exit"])
"""
KEY = "sk-of-a-server"
FAULTS = {
    FaultKind.BAD_KEY: "bad_key",
    FaultKind.NO_CREDIT: "no_quota",
    FaultKind.UNKNOWN_MODEL: "unknown_model",
    FaultKind.USAGE_LIMIT: "usage_limit",
    FaultKind.OVERLOADED: "overloaded",
    FaultKind.RATE_LIMITED: "rate_limited",
}
CACHED = 100
OF_THIS_TEST = Price(0.0, 0.0, cached=2500.0)  # makes a use cost what the contract says


def played(name: str) -> list[str]:
    return (STREAMS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()


def lines_for(plan: Plan) -> list[str]:
    used = plan.usage or Usage(0, 0)
    usage = {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens}
    usage["cached_input_tokens"] = CACHED if used.input_tokens else 0
    failed = {"type": "turn.failed", "error": {"message": "it went wrong"}}
    completed = {"type": "turn.completed", "usage": usage}
    last = failed if plan.fails else completed
    return [*played("success")[:-1], json.dumps(last)]


def speaking(
    place: Place, plan: Plan, lines: list[str], code: int = 0, said: str = ""
) -> tuple[str, ...]:
    fault = played(FAULTS[plan.fault]) if plan.fault else []
    return place.program(plan, SPEECH, lines=lines, exit=code, said=said, fault_lines=fault)


def settings_in(argv: list[str]) -> dict[str, Any]:
    given = [argv[n + 1] for n, word in enumerate(argv) if word == "-c"]
    return tomllib.loads("\n".join(given))


class TestCodexCliDriver(ProgramDriverContract, FaultContract):
    def driver(self, place: Place, plan: Plan, **options: object) -> CodexCliDriver:
        program = speaking(place, plan, lines_for(plan), int(plan.fails))
        driver = CodexCliDriver(program=program, environ=PARENT, **options)  # type: ignore[arg-type]
        driver.prices = {driver.resolve_model("worker"): OF_THIS_TEST}
        return driver

    def without_program(self, place: Place) -> CodexCliDriver:
        return CodexCliDriver(program="no-such-codex", environ=PARENT)

    def playing(self, place: Place, name: str, code: int = 1, **options: object) -> CodexCliDriver:
        program = speaking(place, Plan(), played(name), code)
        return CodexCliDriver(program=program, environ=PARENT, **options)  # type: ignore[arg-type]

    def argv_of(self, place: Place) -> list[str]:
        argv: list[str] = json.loads(place.seen_file.read_text(encoding="utf-8"))["argv"]
        return argv

    def test_the_command_line_bounds_what_it_writes_reads_and_passes_on(self, place: Place) -> None:
        driver = self.driver(place, Plan(), extra_args=("--color", "never"), env=("JAVA_HOME",))
        driver.dispatch_worker(place.request("the prompt", model="m"))
        argv = self.argv_of(place)
        assert " ".join(argv[: argv.index("-c")]) == (
            "exec --json --skip-git-repo-check --ephemeral --ignore-user-config --ignore-rules "
            "--sandbox workspace-write --model m"
        )
        assert argv[-3:] == ["--color", "never", "-"]
        policy = settings_in(argv)["shell_environment_policy"]
        assert (policy["inherit"], policy["ignore_default_excludes"]) == ("all", False)
        assert policy["exclude"] == ["CODEX_*", "*_PROXY", "*_proxy"]
        assert settings_in(argv)["project_doc_max_bytes"] == 0
        assert settings_in(argv)["allow_login_shell"] is False

    @pytest.mark.parametrize("role", ["worker", "verify"])
    def test_inside_of_walls_it_needs_no_sandbox(self, place: Place, role: str) -> None:
        self.driver(place, Plan()).dispatch_worker(place.request(role=role, is_enclosed=True))
        argv = self.argv_of(place)
        assert argv[argv.index("--sandbox") + 1] == "danger-full-access"

    def test_the_projects_own_settings_are_loaded_only_on_request(self, place: Place) -> None:
        self.driver(place, Plan()).dispatch_worker(place.request(whole_project=True))
        argv = self.argv_of(place)
        assert "--trust" in argv
        assert not {"--ignore-user-config", "--ignore-rules"} & {*argv}
        assert "project_doc_max_bytes" not in settings_in(argv)

    def test_a_reviewer_can_write_nothing(self, place: Place) -> None:
        self.driver(place, Plan()).dispatch_worker(place.request(role="verify"))
        argv = self.argv_of(place)
        assert argv[argv.index("--sandbox") + 1] == "read-only"

    def test_a_server_of_ones_own_is_named_with_the_variable_of_its_key(self, place: Place) -> None:
        program = speaking(place, Plan(), lines_for(Plan()))
        url = "http://127.0.0.1:8080/v1"
        driver = CodexCliDriver(
            program=program,
            environ={**PARENT, "LAB_KEY": KEY},
            base_url=url,
            api_key_env="LAB_KEY",
        )
        assert driver.dispatch_worker(place.request()).ok
        settings = settings_in(self.argv_of(place))
        server = settings["model_providers"][settings["model_provider"]]
        assert (server["base_url"], server["env_key"]) == (url, "LAB_KEY")
        assert (server["wire_api"], server["request_max_retries"]) == ("responses", 1)
        assert place.environment["LAB_KEY"] == KEY
        assert "LAB_KEY" in settings["shell_environment_policy"]["exclude"]
        assert KEY not in " ".join(self.argv_of(place))

    def test_without_a_server_the_named_key_has_the_programs_own_name(self, place: Place) -> None:
        program = speaking(place, Plan(), lines_for(Plan()))
        environ = {**PARENT, "LAB_KEY": KEY}
        driver = CodexCliDriver(program=program, environ=environ, api_key_env="LAB_KEY")
        driver.dispatch_worker(place.request())
        assert place.environment["CODEX_API_KEY"] == KEY
        assert "LAB_KEY" not in place.environment

    def test_a_key_that_is_not_set_starts_nothing(self, place: Place) -> None:
        program = speaking(place, Plan(), lines_for(Plan()))
        driver = CodexCliDriver(program=program, environ=PARENT, api_key_env="LAB_KEY")
        result = driver.dispatch_worker(place.request())
        assert result.fault is not None
        assert (result.failure, result.fault.kind) == (FAILURE_COULD_NOT_RUN, FaultKind.BAD_KEY)
        assert driver.readiness_problems() == (result.error,)
        assert not place.seen_file.exists()

    def test_a_used_up_plan_is_told_with_its_end_and_not_tried_again(self, place: Place) -> None:
        result = self.playing(place, "usage_limit").dispatch_worker(place.request())
        assert result.fault is not None
        assert result.fault.kind is FaultKind.USAGE_LIMIT
        assert result.fault.resets_at is not None
        assert not (place.root / "scratch" / "try-2").exists()

    def test_a_busy_server_is_asked_again(self, place: Place) -> None:
        driver = self.playing(place, "overloaded", retries=1)
        result = driver.dispatch_worker(place.request())
        assert (result.ok, result.failure) == (False, FAILURE_COULD_NOT_RUN)
        assert (place.root / "scratch" / "try-2" / "agent.out").exists()

    def test_a_schema_is_asked_for_and_its_object_handed_on(self, place: Place) -> None:
        driver = self.playing(place, "structured", 0)
        result = driver.dispatch_worker(place.request(result_schema={"type": "object"}))
        argv = self.argv_of(place)
        schema = Path(argv[argv.index("--output-schema") + 1])
        assert json.loads(schema.read_text(encoding="utf-8")) == {"type": "object"}
        assert (result.ok, result.structured) == (True, {"verdict": "pass"})

    def test_a_schema_that_was_not_followed_is_a_failed_dispatch(self, place: Place) -> None:
        request = place.request(result_schema={"type": "object"})
        result = self.driver(place, Plan()).dispatch_worker(request)
        assert (result.ok, result.failure) == (False, FAILURE_AGENT)
        assert "structured" in (result.error or "")

    def test_a_program_that_never_began_a_session_could_not_run(self, place: Place) -> None:
        program = speaking(place, Plan(), [], 2, "error: unexpected argument '--json'")
        result = CodexCliDriver(program=program, environ=PARENT).dispatch_worker(place.request())
        assert result.failure == FAILURE_COULD_NOT_RUN
        assert result.fault is not None
        assert result.fault.did_nothing
        assert "unexpected argument" in (result.error or "")

    @pytest.mark.parametrize("code", [0, 1])
    def test_no_end_of_a_turn_is_a_failure_whatever_the_exit_code(
        self, place: Place, code: int
    ) -> None:
        program = speaking(place, Plan(), played("success")[:-1], code)
        result = CodexCliDriver(program=program, environ=PARENT).dispatch_worker(place.request())
        assert (result.ok, result.failure, result.usage) == (False, FAILURE_AGENT, Usage())

    def test_an_unknown_price_is_an_unknown_cost(self, place: Place) -> None:
        driver = self.playing(place, "success", 0)
        result = driver.dispatch_worker(place.request(model="nobodys"))
        assert result.usage == Usage(6600, 102, None)

    def test_what_came_from_a_cache_has_its_own_price(self, place: Place) -> None:
        driver = self.playing(place, "success", 0)
        driver.prices = {"m": Price(1.0, 10.0, cached=0.5)}
        result = driver.dispatch_worker(place.request(model="m"))
        cost = (3600 * 1.0 + 3000 * 0.5 + 102 * 10.0) / 1_000_000
        assert result.usage.cost_usd == pytest.approx(cost)
