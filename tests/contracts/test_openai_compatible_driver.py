"""The contract for any server of OpenAI's protocol, and what only this backend promises."""

from __future__ import annotations

from typing import Any

import pytest

from driver.backend_api.driver import MODEL_ROLES
from driver.backends.chat import CodexDriver
from driver.backends.openai_compatible import OpenAICompatibleDriver
from tests.contracts.completion_contract import CompletionContract
from tests.contracts.driver_contract import PARENT


class TestOpenAICompatibleDriver(CompletionContract):
    def asks(self, url: str, **options: Any) -> OpenAICompatibleDriver:
        return OpenAICompatibleDriver(url, "local", environ=PARENT, **options)

    def test_it_is_a_codex_driver_of_one_model(self) -> None:
        driver = self.asks("http://127.0.0.1:1/v1")
        assert isinstance(driver, CodexDriver)
        assert {driver.resolve_model(role) for role in (*MODEL_ROLES, "juggler")} == {"local"}
        mapped = self.asks("http://127.0.0.1:1/v1", model_map={"verify": "other"})
        assert [mapped.resolve_model(role) for role in MODEL_ROLES] == ["local", "local", "other"]

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, (2, 0.92)),
            ({"is_local": True}, (3, 0.80)),
            ({"is_local": True, "tier": 1}, (1, 0.80)),
        ],
    )
    def test_a_local_model_is_trusted_less(
        self, options: dict[str, Any], expected: tuple[int, float]
    ) -> None:
        capabilities = self.asks("http://127.0.0.1:1/v1", **options).probe_capabilities()
        assert capabilities.name == "openai-compatible (local)"
        assert (
            capabilities.recommended_verification_tier,
            capabilities.tool_use_accuracy,
        ) == expected

    @pytest.mark.parametrize(
        ("url", "ready"),
        [
            ("http://127.0.0.1:1/v1", True),
            ("http://[::1]:1/v1", True),
            ("http://localhost:1/v1", True),
            ("https://localhost.example/v1", False),
        ],
    )
    def test_only_a_server_on_this_machine_needs_no_key(self, url: str, ready: bool) -> None:
        driver = OpenAICompatibleDriver(url, "m", "THE_KEY", is_local=True, environ={})
        assert (driver.readiness_problems() == ()) is ready
        assert ready or "THE_KEY" in driver.readiness_problems()[0]

    def test_is_local_does_not_make_a_server_local(self) -> None:
        driver = OpenAICompatibleDriver("http://10.0.0.5/v1", "m", is_local=True, environ=PARENT)
        (problem,) = driver.readiness_problems()
        assert "base_url" in problem
