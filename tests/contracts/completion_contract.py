"""What every backend promises that asks a model for whole files; a binding makes the driver."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from driver.backend_api.driver import (
    FAILURE_AGENT,
    FAILURE_COULD_NOT_RUN,
    FAILURE_REFUSED,
    Usage,
    WorkerRequest,
    WorkerResult,
)
from driver.backend_api.provider_fault import FaultKind
from driver.backend_api.throttle import Throttle
from driver.backends.chat import CodexDriver
from tests.contracts.driver_contract import (
    FaultContract,
    Place,
    Plan,
    WaitingContract,
    WriterContract,
)
from tests.support.raw_server import (
    USED,
    Act,
    RawServer,
    completion,
    document,
    error,
    patch,
    says,
)

GOOD = patch({"old.txt": "after"})


class CompletionPlace(Place):
    """A workspace, and the servers that play the model."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.stack = stack
        self.servers: list[RawServer] = []
        super().__init__(root)

    def server(self, *acts: Act) -> RawServer:
        server = self.stack.enter_context(RawServer(acts))
        self.servers.append(server)
        return server


FAULTS = {
    FaultKind.BAD_KEY: error("401 Unauthorized"),
    FaultKind.NO_CREDIT: error("429 Too Many Requests", code="insufficient_quota"),
    FaultKind.UNKNOWN_MODEL: error("404 Not Found", code="model_not_found"),
    FaultKind.USAGE_LIMIT: error("429 Too Many Requests", type="usage_limit_reached"),
    FaultKind.OVERLOADED: error("503 Service Unavailable"),
    FaultKind.RATE_LIMITED: error("429 Too Many Requests"),
}
HANGS = Act(lambda call: call.ending.wait())


def played(plan: Plan) -> Act:
    if plan.hangs:
        return HANGS
    if plan.fails:
        return says(None, usage_of(plan.usage), refusal="it went wrong")
    return says(patch(dict(plan.files)), usage_of(plan.usage))


def usage_of(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "cost": usage.cost_usd,
    }


class CompletionContract(WaitingContract, FaultContract, WriterContract):
    """The rules for backends behind Chat Completions."""

    TOO_LATE = FAILURE_COULD_NOT_RUN  # a silent server is no failure of the model

    @pytest.fixture
    def place(self, tmp_path: Path) -> Iterator[CompletionPlace]:
        with ExitStack() as stack:
            yield CompletionPlace(tmp_path, stack)

    @abstractmethod
    def asks(self, url: str, **options: Any) -> CodexDriver:
        """A driver of the server at `url` for the model "local"."""

    def driver(self, place: Place, plan: Plan, **options: object) -> CodexDriver:
        assert isinstance(place, CompletionPlace)
        faults = [FAULTS[plan.fault]] * plan.fault_times if plan.fault else []
        return self.asks(place.server(*faults, played(plan)).url, **options)

    def arrived(self, place: Place) -> bool:
        assert isinstance(place, CompletionPlace)
        return place.servers[0].calls > 0

    def dispatch(
        self, place: CompletionPlace, *acts: Act, request: WorkerRequest | None = None, **more: Any
    ) -> tuple[WorkerResult, CodexDriver]:
        (place.workspace / "old.txt").write_text("before", encoding="utf-8")
        driver = self.asks(
            place.server(*acts).url, throttle=Throttle(retries=2, cap_s=0.01), **more
        )
        return driver.dispatch_worker(request or place.request()), driver

    def test_it_says_what_it_can_do_in_ascii(self, place: Place) -> None:
        driver = self.driver(place, Plan())
        capabilities = driver.probe_capabilities()
        able = [name for name, value in vars(capabilities).items() if value is True]
        assert able == ["structured_output", "native_cost_tracking"]
        assert driver.describe().isascii()

    def test_a_malformed_answer_is_asked_for_again_and_billed(self, place: CompletionPlace) -> None:
        result, driver = self.dispatch(place, says("sorry"), says("{}"), says(GOOD))
        assert (result.ok, result.tokens_spent) == (True, 450)
        assert driver.get_tokens_spent() == place.servers[0].billed == 450
        last = place.servers[0].received[-1].document["messages"]
        assert [message["role"] for message in last] == [
            "system", "user", "assistant", "user", "assistant", "user",
        ]  # fmt: skip
        assert "return ONLY the JSON object" in last[-1]["content"]
        assert "lacks 'files'" in last[-1]["content"]

    def test_a_model_that_never_answers_in_shape_has_failed(self, place: CompletionPlace) -> None:
        result, driver = self.dispatch(place, says("sorry"))
        assert (result.ok, result.failure, result.tokens_spent) == (False, FAILURE_AGENT, 450)
        assert result.fault is None
        told = "structured output validation failed after 3 attempts: there is no JSON object"
        assert (result.error or "").startswith(told)
        assert driver.get_tokens_spent() == 450

    def test_a_large_file_can_be_retried_too(self, place: CompletionPlace) -> None:
        (place.workspace / "a.txt").write_text("x" * 1800, encoding="utf-8")
        result, _ = self.dispatch(place, says("no"), says(GOOD), max_owned_bytes=2400)
        assert result.ok

    def test_an_owned_file_over_the_budget_is_not_sent(self, place: CompletionPlace) -> None:
        (place.workspace / "a.txt").write_text("x" * 3000, encoding="utf-8")
        result, _ = self.dispatch(place, says(GOOD), max_owned_bytes=2400)
        assert result.failure == FAILURE_COULD_NOT_RUN
        assert result.usage == Usage(0, 0, 0.0)
        assert place.servers[0].calls == 0

    @pytest.mark.parametrize("path", ["b.txt", "../b.txt", ".git/hooks/pre-commit", "/tmp/b.txt"])
    def test_a_patch_for_other_files_is_refused_whole(
        self, path: str, place: CompletionPlace
    ) -> None:
        both = patch({"old.txt": "after", path: "x"})
        result, _ = self.dispatch(place, says(both))
        assert (result.ok, result.failure) == (False, FAILURE_REFUSED)
        assert (result.error or "").startswith("out-of-scope:")
        assert result.tokens_spent == 150
        assert [p.name for p in place.workspace.rglob("*")] == ["old.txt"]
        assert (place.workspace / "old.txt").read_text(encoding="utf-8") == "before"

    def test_a_link_in_the_way_is_not_followed(self, place: CompletionPlace) -> None:
        target = place.root / "outside.txt"
        target.write_text("kept", encoding="utf-8")

        def plants(call: Any) -> None:
            (place.workspace / "a.txt").symlink_to(target)
            says(patch({"old.txt": "after", "a.txt": "bad"})).play(call)

        result, _ = self.dispatch(place, Act(plants, 150))
        assert result.failure == FAILURE_REFUSED
        assert target.read_text(encoding="utf-8") == "kept"
        assert (place.workspace / "old.txt").read_text(encoding="utf-8") == "before"

    def test_the_ladder_is_climbed_down_once_for_all_dispatches(
        self, place: CompletionPlace
    ) -> None:
        no_schema = error("400 Bad Request", "'response_format.type' must be 'text'")
        result, driver = self.dispatch(place, no_schema, no_schema, says(GOOD), says(GOOD))
        assert (result.ok, result.tokens_spent) == (True, 150)
        assert driver.dispatch_worker(place.request()).ok
        kinds = [
            got.document.get("response_format", {}).get("type") for got in place.servers[0].received
        ]
        assert kinds == ["json_schema", "json_object", None, None]

    def test_a_refused_parameter_is_left_out_once_for_all_dispatches(
        self, place: CompletionPlace
    ) -> None:
        refusal = error(
            "400 Bad Request", "Only 1 is supported", param="temperature", code="unsupported_value"
        )
        result, driver = self.dispatch(place, refusal, says(GOOD), says(GOOD))
        assert result.ok
        assert driver.dispatch_worker(place.request()).ok
        sent = ["temperature" in got.document for got in place.servers[0].received]
        assert sent == [True, False, False]

    def test_an_answer_that_was_cut_off_is_given_more_room(self, place: CompletionPlace) -> None:
        cut = completion("", USED)
        cut["choices"][0]["finish_reason"] = "length"
        refusal = error("400 Bad Request", "not known", param="max_tokens")
        result, _ = self.dispatch(place, document(cut, 150), refusal, says(GOOD))
        assert (result.ok, result.tokens_spent) == (True, 300)
        _, second, third = (got.document for got in place.servers[0].received)
        assert second["max_tokens"] >= 32_768
        assert third["max_completion_tokens"] == second["max_tokens"]
        assert "max_tokens" not in third

    def test_a_plain_bad_request_stops_at_once(self, place: CompletionPlace) -> None:
        result, _ = self.dispatch(place, error("400 Bad Request", "too long"))
        assert result.failure == FAILURE_COULD_NOT_RUN
        assert place.servers[0].calls == 1

    def test_an_unknown_model_is_named_with_the_setting(self, place: CompletionPlace) -> None:
        gone = error("404 Not Found", "The model does not exist", code="model_not_found")
        result, _ = self.dispatch(place, gone)
        assert result.fault is not None
        assert result.fault.kind is FaultKind.UNKNOWN_MODEL
        assert "'local'" in (result.error or "")
        assert "[backend] model" in (result.error or "")
        assert place.servers[0].calls == 1

    @pytest.mark.parametrize(
        ("usage", "word"),
        [
            (None, "missing"),
            ({"total_tokens": "many"}, "malformed"),
            ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, "malformed"),
        ],
    )
    def test_one_answer_without_use_makes_the_whole_unknown_and_is_told(
        self, usage: Any, word: str, place: CompletionPlace, capsys: pytest.CaptureFixture[str]
    ) -> None:
        result, driver = self.dispatch(place, says("no", usage), says(GOOD))
        assert result.ok
        assert (result.usage.total_tokens, result.usage.cost_usd) == (None, None)
        assert result.usage.known_tokens > 0
        assert driver.get_unmetered_dispatches() == 1
        assert driver.get_tokens_spent() is None
        told = capsys.readouterr().err
        assert "WARNING:" in told
        assert "unmetered" in told
        assert word in told

    def test_a_reader_gets_its_object_and_changes_nothing(self, place: CompletionPlace) -> None:
        schema = {
            "type": "object",
            "properties": {"verdict": {"enum": ["pass", "fail"]}},
            "required": ["verdict"],
            "additionalProperties": False,
        }
        request = place.request(result_schema=schema, role="verify")
        answers = says('{"verdict": "maybe"}'), says('{"verdict": "pass"}')
        result, _ = self.dispatch(place, *answers, request=request)
        assert (result.ok, result.structured, result.files_written) == (
            True,
            {"verdict": "pass"},
            (),
        )
        sent = place.servers[0].received[0].document["response_format"]["json_schema"]
        assert (sent["strict"], sent["schema"]) == (True, schema)

    def test_what_went_back_and_forth_is_kept(self, place: CompletionPlace) -> None:
        self.dispatch(place, error("500 Oops"), says(GOOD))
        kept = (place.root / "scratch/exchange.jsonl").read_text(encoding="utf-8").splitlines()
        assert [sorted(json.loads(line)) for line in kept] == [
            ["error", "request"],
            ["answer", "request"],
        ]

    def test_a_running_dispatch_is_seen_to_wait(self, place: CompletionPlace) -> None:
        states = []
        drivers: list[CodexDriver] = []

        def looks(call: Any) -> None:
            (worker_id,) = drivers[0]._heard
            states.append(drivers[0].worker_status(worker_id))
            says(GOOD).play(call)

        drivers.append(self.asks(place.server(Act(looks, 150)).url))
        drivers[0].dispatch_worker(place.request())
        assert [(s.state, s.stalled) for s in states] == [("running", False)]
        assert states[0].detail
