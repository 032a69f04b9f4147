"""The contract for Chat Completions, and the source's ways of using this backend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from driver.backend_api.driver import FAILURE_AGENT, FAILURE_COULD_NOT_RUN, WorkerRequest
from driver.backend_api.models import CODEX_MODELS
from driver.backend_api.provider_fault import FaultKind
from driver.backend_api.throttle import Throttle
from driver.backends.chat import JSON_SCHEMA_CAPABLE, WORKER_PATCH_SCHEMA, CodexDriver
from tests.contracts.completion_contract import CompletionContract
from tests.contracts.driver_contract import PARENT
from tests.support.raw_server import completion, patch


class TestCodexDriver(CompletionContract):
    def asks(self, url: str, **options: Any) -> CodexDriver:
        models = {"worker": "local", "setup": "local", "verify": "local"}
        return CodexDriver(models, base_url=url, environ=PARENT, **options)


class Transport:
    """A transport of a caller's own: payload in, document out."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.payloads: list[dict[str, Any]] = []

    def __call__(self, payload: dict[str, Any]) -> dict[str, Any]:
        self.payloads.append(json.loads(json.dumps(payload)))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, dict) else completion(answer, {"total_tokens": 100})


def dispatched(folder: Path, transport: Transport, **options: Any) -> tuple[Any, CodexDriver]:
    (folder / "a.py").write_text("old", encoding="utf-8")
    driver = CodexDriver(
        None, transport, environ={}, throttle=Throttle(retries=2, cap_s=0.01), **options
    )
    return driver.dispatch_worker(WorkerRequest("Fix it.", ("a.py",), str(folder))), driver


def test_a_callers_own_transport_needs_no_key(tmp_path: Path) -> None:
    transport = Transport(patch({"a.py": "new"}))
    result, driver = dispatched(tmp_path, transport)
    assert (result.ok, result.status, result.files_written) == (True, "done", ("a.py",))
    assert (result.tokens_spent, driver.get_tokens_spent()) == (100, 100)
    assert (tmp_path / "a.py").read_text(encoding="utf-8") == "new"
    (payload,) = transport.payloads
    assert payload["model"] == CODEX_MODELS["worker"]
    assert payload["response_format"]["json_schema"]["schema"] == WORKER_PATCH_SCHEMA
    assert [message["role"] for message in payload["messages"]] == ["system", "user"]


@pytest.mark.parametrize(
    ("raised", "kind", "calls"),
    [
        (RuntimeError("OpenAI API request failed: HTTP Error 401: no"), FaultKind.BAD_KEY, 1),
        (RuntimeError("OpenAI API request failed: HTTP Error 503: no"), FaultKind.OVERLOADED, 3),
        (RuntimeError("it is not configured"), FaultKind.BAD_REQUEST, 1),
        (ConnectionResetError("gone"), FaultKind.DROPPED, 3),
        (TimeoutError("slow"), FaultKind.SILENT, 2),
    ],
)
def test_what_a_callers_transport_raises_is_a_fault_of_the_provider(
    raised: Exception, kind: FaultKind, calls: int, tmp_path: Path
) -> None:
    transport = Transport(raised)
    result, _ = dispatched(tmp_path, transport)
    assert (result.ok, result.failure) == (False, FAILURE_COULD_NOT_RUN)
    assert result.fault.kind is kind
    assert str(raised) in result.error
    assert len(transport.payloads) == calls


def test_no_nudge_is_wasted_on_a_fault(tmp_path: Path) -> None:
    down = RuntimeError("HTTP Error 500: no")
    transport = Transport("no JSON", down, "no JSON", down, patch({"a.py": "new"}))
    result, _ = dispatched(tmp_path, transport)
    assert (result.ok, result.tokens_spent) == (True, 300)
    assert [len(payload["messages"]) for payload in transport.payloads] == [2, 4, 4, 6, 6]


@pytest.mark.parametrize("retries", [0, 1, 4])
def test_malformed_answers_are_asked_for_again_as_often_as_told(
    retries: int, tmp_path: Path
) -> None:
    transport = Transport("no JSON")
    result, _ = dispatched(tmp_path, transport, max_retries=retries)
    assert (result.failure, len(transport.payloads)) == (FAILURE_AGENT, retries + 1)
    assert f"failed after {retries + 1} attempts" in result.error


def test_notes_on_malformed_answers_have_a_budget(tmp_path: Path) -> None:
    result, _ = dispatched(tmp_path, Transport("no JSON"), max_retries=1000)
    assert result.error.startswith("budget_exceeded_on_retry:")
    assert result.failure == FAILURE_AGENT


def test_the_key_is_asked_for_by_name_before_anything_is_spent(tmp_path: Path) -> None:
    driver = CodexDriver(environ={})
    (problem,) = driver.readiness_problems()
    assert "OPENAI_API_KEY" in problem
    result = driver.dispatch_worker(WorkerRequest("x", (), str(tmp_path)))
    assert (result.failure, result.error, result.tokens_spent) == (
        FAILURE_COULD_NOT_RUN,
        problem,
        0,
    )


def test_the_key_may_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    driver = CodexDriver()
    assert driver.readiness_problems() != ()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-now-it-is-there")
    assert driver.readiness_problems() == ()


def test_every_model_may_be_tried() -> None:
    assert "gpt-4o" in JSON_SCHEMA_CAPABLE
    driver = CodexDriver({"worker": "gpt-3.5-turbo"}, allow_unverified_models=False)
    assert driver.resolve_model("worker") == "gpt-3.5-turbo"
    assert driver.resolve_model("juggler") == "gpt-3.5-turbo"


def test_a_dispatch_that_is_silent_for_its_whole_time_is_stalled(tmp_path: Path) -> None:
    clock = [0.0]
    drivers: list[CodexDriver] = []
    seen = []

    class Slow(Transport):
        def __call__(self, payload: dict[str, Any]) -> dict[str, Any]:
            (worker_id,) = drivers[0]._heard
            for now in (100.0, 130.0):
                clock[0] = now
                status = drivers[0].worker_status(worker_id)
                seen.append((status.state, status.stalled, status.age_s))
            return super().__call__(payload)

    drivers.append(CodexDriver(None, Slow(patch({})), now=lambda: clock[0], timeout_s=120.0))
    result = drivers[0].dispatch_worker(WorkerRequest("x", (), str(tmp_path)))
    assert seen == [("running", False, 100.0), ("running", True, 130.0)]
    assert drivers[0].worker_status(result.worker_id).state == "done"


def test_a_workspace_file_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("file", encoding="utf-8")
    driver = CodexDriver(None, Transport(patch({"b/c": "x"})), environ={})

    class Plants(Transport):
        def __call__(self, payload: dict[str, Any]) -> dict[str, Any]:
            tmp_path.joinpath("b").write_text("in the way", encoding="utf-8")
            return super().__call__(payload)

    driver.transport = Plants(patch({"b/c": "x"}))
    result = driver.dispatch_worker(WorkerRequest("x", ("b/c",), str(tmp_path)))
    assert not result.ok
    assert result.files_written == ()
    assert (tmp_path / "b").read_text(encoding="utf-8") == "in the way"
