"""What opencode, gemini and aider print, read from output of the real programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from driver.backend_api.driver import Usage
from driver.backend_api.usage import NOTHING_SPENT
from driver.backends.cli.other_clis import (
    READERS,
    TEXT_CHARACTERS,
    read_aider,
    read_gemini,
    read_opencode,
)
from tools.settings.schema import KINDS

OUTPUTS = Path(__file__).parents[1] / "support" / "cli_outputs"


def lines(name: str) -> list[str]:
    return (OUTPUTS / name).read_text(encoding="utf-8").splitlines(keepends=True)


def step(cost: object = 0, **tokens: object) -> str:
    told = {"input": 5, "output": 2, "reasoning": 0, "cache": {"read": 0, "write": 0}, **tokens}
    return json.dumps({"type": "step_finish", "part": {"tokens": told, "cost": cost}})


def opencode(*more: str) -> Any:
    return read_opencode(more)


# What the model server billed in those runs: input with what was cached, and output.
BILLED_OPENCODE = Usage(108 + 31 + 110 + 32 + 112 + 33, 11 + 12 + 13, None)
BILLED_GEMINI = Usage(426, 36, None)


def test_every_name_that_the_settings_take_has_a_reader() -> None:
    assert [KINDS["backend.output"].accept(name) for name in READERS] == list(READERS)
    assert all(f'"{name}"' in KINDS["backend.output"].says for name in READERS)


class TestOpencode:
    def test_the_steps_of_a_run_add_up_with_what_was_cached(self) -> None:
        report = opencode(*lines("opencode_done.jsonl"))
        assert (report.usage, report.error, report.text) == (BILLED_OPENCODE, "", "done")
        assert (report.started, report.finished) == (True, True)

    def test_what_was_reasoned_was_written(self) -> None:
        assert opencode(step(reasoning=3)).usage == Usage(5, 5, None)

    def test_a_cost_of_zero_is_an_unknown_price(self) -> None:
        assert opencode(step(0.25), step(0.5)).usage.cost_usd == 0.75
        assert opencode(step(0.25), step(0)).usage.cost_usd is None

    @pytest.mark.parametrize("bad", [{"input": 0, "output": 0}, {"input": -1}, {"output": "2"}])
    def test_one_answer_of_unknown_use_makes_the_run_unknown(self, bad: dict[str, object]) -> None:
        usage = opencode(step(), step(**bad)).usage
        assert (usage.total_tokens, usage.cost_usd) == (None, None)
        assert usage.known_tokens >= opencode(step()).usage.known_tokens > 0

    def test_a_request_that_was_turned_down_cost_nothing(self) -> None:
        report = opencode(*lines("opencode_turned_down.jsonl"))
        assert (report.error, report.status) == ("bad model name", 400)
        assert report.usage == NOTHING_SPENT

    def test_what_was_used_before_an_error_counts(self) -> None:
        report = opencode(*lines("opencode_turned_down_later.jsonl"))
        assert (report.error, report.status) == ("bad model name", 400)
        assert report.usage == Usage(108 + 31, 11, None)

    def test_an_error_without_a_status_may_have_cost_something(self) -> None:
        report = opencode(step(), json.dumps({"type": "error", "error": {"name": "Unknown"}}))
        known = opencode(step()).usage.known_tokens
        assert (report.error, report.status) == ("Unknown", None)
        assert report.usage == Usage(least_tokens=known)

    @pytest.mark.parametrize("printed", [[], ["database is locked"], ["[1]", "{", "null"]])
    def test_a_program_that_printed_no_event_did_not_start(self, printed: list[str]) -> None:
        assert not opencode(*printed).started

    def test_no_answer_is_no_end(self) -> None:
        report = opencode(json.dumps({"type": "step_start"}))
        assert (report.started, report.finished, report.usage) == (True, False, Usage())


class TestGemini:
    def test_the_result_tells_the_whole_run(self) -> None:
        report = read_gemini(lines("gemini_done.jsonl"))
        assert (report.usage, report.text, report.error) == (BILLED_GEMINI, "done", "")
        assert (report.started, report.finished) == (True, True)

    def test_thoughts_were_written_though_its_output_leaves_them_out(self) -> None:
        stats = {"total_tokens": 462, "input_tokens": 426, "output_tokens": 21}
        result = json.dumps({"type": "result", "status": "success", "stats": stats})
        assert read_gemini([result]).usage == BILLED_GEMINI

    def test_what_was_used_before_an_error_counts(self) -> None:
        report = read_gemini(lines("gemini_turned_down_later.jsonl"))
        assert (report.usage, report.status) == (Usage(139, 11, None), 400)
        assert "bad model name" in report.error

    def test_a_run_without_a_result_is_unknown(self) -> None:
        report = read_gemini(lines("gemini_done.jsonl")[:-1])
        assert (report.started, report.finished, report.usage) == (True, False, Usage())

    def test_a_server_that_tells_no_use_is_unknown_use(self) -> None:
        result = {"type": "result", "status": "success", "stats": {"total_tokens": 0}}
        assert read_gemini([json.dumps(result)]).usage == Usage()

    @pytest.mark.parametrize("stats", [None, [], {"total_tokens": 3, "input_tokens": 5}])
    def test_numbers_that_cannot_be_are_unknown(self, stats: object) -> None:
        result = {"type": "result", "status": "success", "stats": stats}
        assert read_gemini([json.dumps(result)]).usage == Usage()

    def test_nothing_printed_is_not_started(self) -> None:
        assert not read_gemini(["Please set an Auth method"]).started


class TestAider:
    def test_its_log_tells_exactly_what_its_output_rounds(self) -> None:
        report = read_aider(lines("aider_done.txt"), lines("aider_done.jsonl"))
        assert (report.usage, report.error) == (Usage(139, 11, None), "")
        assert (report.started, report.finished) == (True, True)

    def test_an_error_is_one_though_it_ends_with_0(self) -> None:
        report = read_aider(lines("aider_bad_key.txt"), lines("aider_bad_key.jsonl"))
        assert (report.status, report.usage) == (401, NOTHING_SPENT)
        assert "OpenAIException - bad key given" in report.error

    def test_an_error_that_a_later_try_made_good_is_none(self) -> None:
        said = [*lines("aider_bad_key.txt"), *lines("aider_done.txt")]
        report = read_aider(said, lines("aider_done.jsonl"))
        assert (report.error, report.usage) == ("", Usage(139, 11, None))

    def test_of_an_output_without_end_the_end_is_kept(self) -> None:
        said = ["x" * 65_536 for _ in range(100)]
        report = read_aider([*said, "bye"], lines("aider_done.jsonl"))
        assert (len(report.text), report.text[-4:]) == (TEXT_CHARACTERS, "xbye")

    def test_a_file_that_quotes_such_an_error_is_none(self) -> None:
        said = ["litellm.RateLimitError: quoted\n"]
        assert read_aider(said, lines("aider_done.jsonl")).error == ""

    def test_no_answer_and_no_known_error_is_no_end(self) -> None:
        report = read_aider(["killed\n"], lines("aider_bad_key.jsonl"))
        assert (report.started, report.finished, report.error) == (True, False, "")

    def test_without_its_log_nothing_is_known(self) -> None:
        report = read_aider(lines("aider_done.txt"))
        assert (report.started, report.usage) == (False, Usage())
