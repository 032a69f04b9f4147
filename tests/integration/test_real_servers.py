"""The openai-compatible backend on waves of three: our own model server, and LiteLLM's in front.

Skipped is only what needs LiteLLM's proxy; docs/drivers.md says how to install and name it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agent_waves import (
    NUMBER_DONE,
    Place,
    Wave,
    a_number,
    assert_tests_pass_in_a_clean_clone,
    make_place,
    mark,
    run_wave,
    tokens,
)
from tests.support.lite_llm import KEY, lite_llm
from tests.support.model_script import (
    Conversation,
    Fault,
    Scenario,
    Step,
    Structured,
    TokenUse,
)
from tests.support.model_server import ModelServer

pytestmark = pytest.mark.in_walls

SLUGS = ("alpha", "bravo", "charlie")


def talk(slug: str, fault: Fault | None = None) -> Conversation:
    patch = {
        "files": [{"path": f"{slug}.py", "contents": NUMBER_DONE}],
        "summary": "It returns 7 now.",
        "done": True,
    }
    number = SLUGS.index(slug)
    use = TokenUse(101 + 10 * number, 21 + number, 31 + number, 0, 3)
    return Conversation(mark(slug), [Step(Structured(patch), use, fault)])


@pytest.fixture(params=["our own server", pytest.param("litellm", marks=pytest.mark.more)])
def front(request: pytest.FixtureRequest) -> str | None:
    """The program of a proxy to stand in front, None for none."""
    if request.param != "litellm":
        return None
    program = os.environ.get("TIDEGATE_TEST_LITELLM") or shutil.which("litellm")
    if program is None:
        pytest.skip("no program `litellm` on PATH or named in TIDEGATE_TEST_LITELLM")
    return program


@pytest.fixture
def address(front: str | None, server: ModelServer, tmp_path: Path) -> Iterator[str]:
    if front is None:
        yield server.url
        return
    with lite_llm(front, tmp_path / "proxy", server.url) as url:
        yield url


def wave_at(address: str, folder: Path) -> tuple[Place, Wave]:
    settings = (
        '[backend]\nname = "openai-compatible"\nmodel = "local"\n'
        f'base_url = "{address}/v1"\napi_key_env = "PROXY_KEY"\ntier = 1\n'
        '[review]\nmode = "off"\n'
    )
    place = make_place(folder, [a_number(slug) for slug in SLUGS], settings)
    return place, run_wave(place, {"PROXY_KEY": KEY})


class TestAWave:
    @pytest.fixture
    def server(self) -> Iterator[ModelServer]:
        with ModelServer(Scenario([talk(slug) for slug in SLUGS])) as running:
            yield running

    def test_ships_all_and_reports_what_the_server_billed(
        self, address: str, server: ModelServer, tmp_path: Path
    ) -> None:
        place, wave = wave_at(address, tmp_path)
        assert wave.exit_code == 0, wave.stderr + wave.stdout
        assert wave.shipped == set(SLUGS)
        (branch,) = place.wave_branches()
        assert_tests_pass_in_a_clean_clone(place, branch, tmp_path / "clone")
        assert wave.tokens == {slug: tokens(server.billed_for(mark(slug))) for slug in SLUGS}
        assert KEY not in wave.stdout + wave.stderr


class TestABusyServer:
    @pytest.fixture
    def server(self) -> Iterator[ModelServer]:
        busy = Fault(429, {"retry-after": "1"}, times=2, message="slow down")
        talks = [talk("alpha"), talk("bravo"), talk("charlie", busy)]
        with ModelServer(Scenario(talks)) as running:
            yield running

    def test_is_waited_for_and_costs_no_round(
        self, address: str, server: ModelServer, tmp_path: Path
    ) -> None:
        _, wave = wave_at(address, tmp_path)
        assert wave.exit_code == 0, wave.stderr + wave.stdout
        assert wave.shipped == set(SLUGS)
        assert {built["repairs"] for built in wave.report["wave"]["built"]} == {0}
        assert wave.tokens == {slug: tokens(server.billed_for(mark(slug))) for slug in SLUGS}
