"""The contract for the backends that ask a model over HTTP, with a scripted server on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, ClassVar

import pytest

from driver.agent_driver import FAILURE_COULD_NOT_RUN, FAILURE_REFUSED, Usage
from driver.codex_driver import CodexDriver
from driver.model_table import Price
from driver.openai_compatible_driver import OpenAICompatibleDriver
from driver.provider_fault import FaultKind
from tests.contracts.driver_contract import (
    PARENT,
    FaultContract,
    Place,
    Plan,
    WaitingContract,
    WriterContract,
)
from tests.support.model_script import Conversation, Fault, Scenario, Step, Structured, TokenUse
from tests.support.model_server import ModelServer

MODEL = "a-model"
# 120 and 30 tokens then cost the quarter dollar of the contract's plan.
PRICE = Price(1250.0, 1e6 / 300)
STATUS = {FaultKind.BAD_KEY: 401, FaultKind.OVERLOADED: 503}


def patch(plan: Plan) -> dict[str, Any]:
    files = [{"path": path, "contents": text} for path, text in plan.files.items()]
    return {"files": files, "summary": "Done.", "done": True}


def answer(message: dict[str, Any]) -> str:
    """An answer that tells no use."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}
    return json.dumps({"object": "chat.completion", "choices": [choice]})


def in_place_of_the_answer(plan: Plan) -> Fault | None:
    if plan.hangs:
        return Fault(times=None, hangs=True)
    if plan.fails:
        refused = {"content": None, "refusal": "it went wrong"}
        return Fault(times=None, body=answer(refused))
    if plan.usage is None:
        return Fault(times=None, body=answer({"content": json.dumps(patch(plan))}))
    if plan.fault is not None:
        return Fault(STATUS[plan.fault], times=plan.fault_times, message="not now")
    return None


def scenario(plan: Plan) -> Scenario:
    used = plan.usage or Usage(0, 0)
    use = TokenUse(used.input_tokens or 0, used.output_tokens or 0, 0, 0)
    step = Step(Structured(patch(plan)), use, in_place_of_the_answer(plan))
    return Scenario([Conversation("", [step])])


class CompletionContract(WaitingContract, FaultContract, WriterContract):
    WORKS_ON_FILES: ClassVar = False
    TOO_LATE: ClassVar = FAILURE_COULD_NOT_RUN  # a server that is silent is no failure of a model

    @pytest.fixture(autouse=True)
    def _servers(self) -> Iterator[None]:
        with ExitStack() as self._stack:
            yield

    def address(self, plan: Plan) -> str:
        self.server = self._stack.enter_context(ModelServer(scenario(plan)))
        return f"{self.server.url}/v1"

    def arrived(self, place: Place) -> bool:
        del place
        return bool(self.server.exchanges)

    def test_a_file_that_is_not_its_own_is_refused(self, place: Place) -> None:
        plan = Plan(files={"a.txt": "x", "other.txt": "y"})
        result = self.driver(place, plan).dispatch_worker(place.request())
        assert (result.ok, result.failure) == (False, FAILURE_REFUSED)
        assert list(place.workspace.iterdir()) == []


class TestCodexDriver(CompletionContract):
    def driver(self, place: Place, plan: Plan, **options: Any) -> CodexDriver:
        models = {"worker": MODEL}
        driver = CodexDriver(models, base_url=self.address(plan), environ=PARENT, **options)
        driver.prices = {MODEL: PRICE}
        return driver


class TestOpenAICompatibleDriver(CompletionContract):
    def driver(self, place: Place, plan: Plan, **options: Any) -> OpenAICompatibleDriver:
        address = self.address(plan)
        driver = OpenAICompatibleDriver(address, MODEL, environ=PARENT, **options)
        driver.prices = {MODEL: PRICE}
        return driver
