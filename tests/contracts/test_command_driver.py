"""The contract for any agent program, and what only this backend promises."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from driver.agent_driver import FAILURE_AGENT, Usage
from driver.command_driver import MAX_VERDICT_BYTES, CommandDriver
from driver.provider_fault import FaultKind
from state_store.errors import InputError
from tests.contracts.driver_contract import (
    PARENT,
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
        assert result.error == "agent exited with 7: it went wrong"
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
