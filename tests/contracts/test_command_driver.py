"""The contract for any agent program, and what only this backend promises."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from driver.backend_api.driver import FAILURE_AGENT, FAILURE_COULD_NOT_RUN, Usage
from driver.backend_api.provider_fault import FaultKind
from driver.backends.cli.json_output import MAX_VERDICT_BYTES
from driver.backends.command import CommandDriver
from state_store.documents.errors import InputError
from tests.contracts.driver_contract import (
    PARENT,
    FaultContract,
    Place,
    Plan,
    ProgramDriverContract,
)

SPEECH = """
if plan["usage"]:
    Path(os.environ["TIDEGATE_USAGE_FILE"]).write_text(plan["usage"], encoding="utf-8")
print("noise " * plan["noise"])
if plan["fails"]:
    print("it went wrong", file=sys.stderr)
    sys.exit(7)
"""


def usage_text(usage: Usage | None) -> str:
    if usage is None:
        return ""
    return json.dumps(
        {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost_usd": usage.cost_usd,
        }
    )


class TestCommandDriver(ProgramDriverContract):
    def driver(self, place: Place, plan: Plan, **options: object) -> CommandDriver:
        command = place.program(plan, SPEECH, usage=usage_text(plan.usage), noise=0)
        return CommandDriver(command, environ=PARENT, **options)  # type: ignore[arg-type]

    def without_program(self, place: Place) -> CommandDriver:
        return CommandDriver(["no-such-agent"], environ=PARENT)

    def test_the_agent_is_told_its_item_phase_and_files(self, place: Place) -> None:
        request = place.request("h\u00e9", environment={}, phase="repair")
        self.driver(place, Plan()).dispatch_worker(request)
        told = place.environment
        assert (told["TIDEGATE_ITEM"], told["TIDEGATE_PHASE"]) == ("item-1", "repair")
        assert Path(told["TIDEGATE_PROMPT_FILE"]).read_bytes() == "h\u00e9".encode()
        assert Path(told["TIDEGATE_USAGE_FILE"]).parent == place.root / "scratch"
        assert "TIDEGATE_MODEL" not in told

    def test_the_agent_is_told_the_model_that_the_settings_name(self, place: Place) -> None:
        driver = self.driver(place, Plan(), models={"worker": "small"})
        result = driver.dispatch_worker(place.request())
        assert place.environment["TIDEGATE_MODEL"] == result.model == "small"

    def test_a_failure_quotes_a_bounded_end_of_the_output(self, place: Place) -> None:
        command = place.program(Plan(fails=True), SPEECH, usage="", noise=100_000)
        result = CommandDriver(command, environ=PARENT).dispatch_worker(place.request())
        assert result.failure == FAILURE_AGENT
        assert result.error == "the agent exited with 7: it went wrong"
        assert len(result.text) < 40_000

    @pytest.mark.parametrize(
        ("code", "said", "kind"),
        [
            (1, "5-hour limit reached", FaultKind.USAGE_LIMIT),
            (1, "5-hour limit reached\n" + "and\nmuch\nelse\nwas\nsaid\n", None),
            (1, "API Error: 401 invalid api key", None),
            (0, "5-hour limit reached", None),
        ],
    )
    def test_of_all_faults_only_a_used_up_plan_is_read_from_a_failed_programs_last_lines(
        self, place: Place, code: int, said: str, kind: FaultKind | None
    ) -> None:
        speech = 'print(plan["said"]); sys.exit(plan["exit"])'
        command = place.program(Plan(), speech, said=said, exit=code)
        result = CommandDriver(command, environ=PARENT).dispatch_worker(place.request())
        assert (result.fault and result.fault.kind) == kind
        assert result.ok is (code == 0)

    def test_the_whole_output_is_kept_in_scratch(self, place: Place) -> None:
        command = place.program(Plan(), SPEECH, usage="", noise=100_000)
        CommandDriver(command, environ=PARENT).dispatch_worker(place.request())
        outputs = list((place.root / "scratch").glob("*.out"))
        assert [path.stat().st_size for path in outputs] == [600_001]

    @pytest.mark.parametrize("content", ['{"input_tokens": -1}', "12", "{", '{"cost_usd": NaN}'])
    def test_a_malformed_usage_file_is_unknown_use_with_a_warning(
        self, place: Place, content: str
    ) -> None:
        command = place.program(Plan(), SPEECH, usage=content, noise=0)
        result = CommandDriver(command, environ=PARENT).dispatch_worker(place.request())
        assert (result.ok, result.usage) == (True, Usage())
        assert "warning: the usage file" in result.text

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
    def test_a_pipe_in_place_of_the_usage_file_does_not_hang(self, place: Place) -> None:
        speech = 'os.mkfifo(os.environ["TIDEGATE_USAGE_FILE"])'
        driver = CommandDriver(place.program(Plan(), speech), environ=PARENT)
        result = driver.dispatch_worker(place.request())
        assert (result.ok, result.usage) == (True, Usage())
        assert "regular file" in result.text

    def test_a_usage_file_of_an_earlier_dispatch_is_not_read(self, place: Place) -> None:
        (place.root / "scratch").mkdir()
        (place.root / "scratch/usage.json").write_text('{"input_tokens": 1}', encoding="utf-8")
        result = self.driver(place, Plan(usage=None)).dispatch_worker(place.request())
        assert result.usage == Usage()

    @pytest.mark.parametrize(
        ("written", "structured"),
        [
            ('{"verdict": "approve"}', {"verdict": "approve"}),
            ("", None),
            ("approve", None),
            ('["approve"]', None),
            ('{"verdict": "approve"', None),
            ('{"a": 1, "a": 2}', None),
            ('{"a": NaN}', None),
            ('{"a": "' + "x" * MAX_VERDICT_BYTES + '"}', None),
        ],
    )
    def test_a_verdict_is_one_whole_object_in_its_file(
        self, place: Place, written: str, structured: object
    ) -> None:
        speech = 'Path(os.environ["TIDEGATE_VERDICT_FILE"]).write_text(plan["written"])'
        command = place.program(Plan(), speech, written=written)
        request = place.request(result_schema={"type": "object"})
        result = CommandDriver(command, environ=PARENT).dispatch_worker(request)
        assert (result.ok, result.structured) == (True, structured)
        assert ("warning: the verdict file" in result.text) is (structured is None)

    def test_a_verdict_of_an_earlier_dispatch_is_not_read(self, place: Place) -> None:
        (place.root / "scratch").mkdir()
        (place.root / "scratch/verdict.json").write_text('{"verdict": "approve"}')
        request = place.request(result_schema={"type": "object"})
        result = self.driver(place, Plan()).dispatch_worker(request)
        assert result.structured is None

    def test_who_is_asked_for_no_verdict_has_no_place_for_one(self, place: Place) -> None:
        self.driver(place, Plan()).dispatch_worker(place.request())
        assert "TIDEGATE_VERDICT_FILE" not in place.environment

    @pytest.mark.skipif(os.name == "nt", reason="scripts are not programs on Windows")
    def test_a_relative_program_is_looked_for_where_the_settings_are(self, place: Place) -> None:
        script = place.root / "agents/mine"
        script.parent.mkdir()
        script.write_text(f"#!{sys.executable}\nopen('made', 'w').close()\n", encoding="utf-8")
        script.chmod(0o755)
        driver = CommandDriver(["./agents/mine"], environ=PARENT, base=place.root)
        assert driver.readiness_problems() == ()
        assert driver.dispatch_worker(place.request()).ok
        assert (place.workspace / "made").exists()

    def test_an_empty_command_is_refused(self) -> None:
        with pytest.raises(InputError, match=r"\[backend\] command"):
            CommandDriver([])

    def test_the_tier_is_as_told_and_4_by_default(self, place: Place) -> None:
        tiers = [
            self.driver(place, Plan(), **options).probe_capabilities()
            for options in ({}, {"tier": 2})
        ]
        assert [tier.recommended_verification_tier for tier in tiers] == [4, 2]

    def test_its_words_can_stand_for_what_a_dispatch_knows(self, place: Place) -> None:
        words = ("{prompt_file}", "{usage_file}", "{model}", "--", "{owned_files}", "x{model}")
        program = place.program(Plan(), SPEECH, usage="", noise=0)
        driver = CommandDriver((*program, *words), environ=PARENT, models={"worker": "small"})
        driver.dispatch_worker(place.request(owned_files=("a.txt", "-b.txt")))
        argv = json.loads(place.seen_file.read_text(encoding="utf-8"))["argv"]
        files = [place.environment[f"TIDEGATE_{name}_FILE"] for name in ("PROMPT", "USAGE")]
        assert argv == [*files, "small", "--", "a.txt", "./-b.txt", "x{model}"]

    def test_a_command_that_needs_a_model_needs_one_named(self) -> None:
        with pytest.raises(InputError, match=r"\[backend\] model"):
            CommandDriver(["agent", "{model}"])

    @pytest.mark.skipif(os.name == "nt", reason="no program `env` there")
    def test_the_program_that_env_starts_is_looked_for_too(self) -> None:
        command = ["env", "A=b", "no-such-agent", "run"]
        (problem,) = CommandDriver(command, environ=os.environ).readiness_problems()
        assert "no-such-agent" in problem

    def test_aider_needs_its_log(self) -> None:
        with pytest.raises(InputError, match=r"--analytics-log \{usage_file\}"):
            CommandDriver(["aider", "{owned_files}"], output="aider")

    @pytest.mark.parametrize("code", [126, 127])
    def test_a_program_that_its_shell_cannot_start_did_nothing(
        self, place: Place, code: int
    ) -> None:
        command = place.program(Plan(), OPENCODE, lines=[], exit=code)
        result = CommandDriver(command, environ=PARENT).dispatch_worker(place.request())
        assert (result.ok, result.failure) == (False, FAILURE_COULD_NOT_RUN)
        assert result.fault is not None
        assert result.fault.did_nothing

    @pytest.mark.parametrize(
        ("told", "failure"),
        [
            ({"input_tokens": 0, "output_tokens": 0, "cost_usd": 0}, FAILURE_COULD_NOT_RUN),
            ({"input_tokens": 0, "output_tokens": 0, "cost_usd": 0.5}, FAILURE_AGENT),
            ({"input_tokens": 5, "output_tokens": 0}, FAILURE_AGENT),
            ({}, FAILURE_AGENT),  # unknown use is not zero
        ],
    )
    def test_a_program_that_tells_of_no_use_did_nothing(
        self, place: Place, told: dict[str, float], failure: str
    ) -> None:
        speech = "Path(os.environ['TIDEGATE_USAGE_FILE']).write_text(plan['told'])\nsys.exit(1)\n"
        command = place.program(Plan(), speech, told=json.dumps(told))
        result = CommandDriver(command, environ=PARENT).dispatch_worker(place.request())
        assert (result.ok, result.failure) == (False, failure)


OPENCODE = """
for line in plan["lines"]:
    print(line)
sys.exit(plan["exit"])
"""
FAULTS = {
    FaultKind.BAD_KEY: (401, "no such key"),
    FaultKind.NO_CREDIT: (402, "payment required"),
    FaultKind.UNKNOWN_MODEL: (404, "the model `m` does not exist"),
    FaultKind.USAGE_LIMIT: (429, "You've hit your usage limit, try again in 3 hours"),
    FaultKind.OVERLOADED: (503, "no capacity"),
    FaultKind.RATE_LIMITED: (429, "too many requests"),
}


def opencode_lines(plan: Plan) -> list[str]:
    used = plan.usage or Usage(0, 0, 0.0)
    tokens = {"input": used.input_tokens, "output": used.output_tokens, "reasoning": 0}
    part = {"tokens": {**tokens, "cache": {"read": 0, "write": 0}}, "cost": used.cost_usd}
    events: list[dict[str, Any]] = [
        {"type": "step_start", "part": {}},
        {"type": "step_finish", "part": part},
    ]
    if plan.fails:
        events.append(failed(400, "it went wrong"))
    return [json.dumps(event) for event in events]


def failed(status: int, message: str) -> dict[str, object]:
    data = {"message": message, "statusCode": status}
    return {"type": "error", "error": {"name": "APIError", "data": data}}


class TestCommandDriverThatReadsOpencode(ProgramDriverContract, FaultContract):
    def driver(self, place: Place, plan: Plan, **options: object) -> CommandDriver:
        lines, code = opencode_lines(plan), int(plan.fails)
        fault = [json.dumps(failed(*FAULTS[plan.fault]))] if plan.fault else []
        command = place.program(plan, OPENCODE, lines=lines, exit=code, fault_lines=fault)
        return CommandDriver(command, environ=PARENT, output="opencode", **options)  # type: ignore[arg-type]

    def without_program(self, place: Place) -> CommandDriver:
        return CommandDriver(["no-such-agent"], environ=PARENT, output="opencode")

    @pytest.mark.parametrize("code", [0, 1])
    def test_a_program_that_says_nothing_of_its_own_could_not_run(
        self, place: Place, code: int
    ) -> None:
        command = place.program(Plan(), OPENCODE, lines=["database is locked"], exit=code)
        driver = CommandDriver(command, environ=PARENT, output="opencode")
        result = driver.dispatch_worker(place.request())
        assert (result.ok, result.failure) == (False, FAILURE_COULD_NOT_RUN)
        assert "database is locked" in (result.error or "")

    @pytest.mark.parametrize("last", [{"type": "step_start"}, {"type": "error", "error": {}}])
    def test_no_answer_of_its_model_is_no_work_whatever_the_exit_code(
        self, place: Place, last: dict[str, Any]
    ) -> None:
        lines = [json.dumps({"type": "step_start", "part": {}}), json.dumps(last)]
        command = place.program(Plan(), OPENCODE, lines=lines, exit=0)
        driver = CommandDriver(command, environ=PARENT, output="opencode")
        result = driver.dispatch_worker(place.request())
        assert (result.ok, result.failure) == (False, FAILURE_COULD_NOT_RUN)
        assert result.fault is not None
        assert result.fault.did_nothing
        assert result.usage == Usage()  # a request may have been billed

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
    def test_a_pipe_in_place_of_the_usage_file_does_not_hang_the_reader(self, place: Place) -> None:
        speech = 'os.mkfifo(os.environ["TIDEGATE_USAGE_FILE"])'
        command = place.program(Plan(), speech)
        driver = CommandDriver((*command, "{usage_file}"), environ=PARENT, output="aider")
        result = driver.dispatch_worker(place.request())
        assert (result.ok, result.failure) == (False, FAILURE_COULD_NOT_RUN)
