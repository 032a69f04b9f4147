"""Real agent programs, each on a wave of three items, offline: their model is a scripted server.

A program that is not installed is skipped; docs/drivers.md says how to install and name them. No
account, key or network is needed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.agent_waves import (
    NUMBER_DONE,
    ROOT,
    Place,
    Wave,
    a_number,
    assert_tests_pass_in_a_clean_clone,
    make_place,
    mark,
    run_wave,
    tokens,
)
from tests.support.model_script import (
    Action,
    Conversation,
    Fault,
    Say,
    Scenario,
    Step,
    TokenUse,
    UseTool,
    read_file,
    shell,
    write_file,
)
from tests.support.model_server import ModelServer

API_KEY = "the-key-of-this-test"
SLUGS = ("alpha", "bravo", "charlie")
DONE = Say("It is done.")
DOCUMENT = ROOT / "docs" / "drivers.md"


@dataclass(frozen=True)
class Agent:
    """One program: its settings as docs/drivers.md has them, and how its model changes a file.

    `settings` gets the program and the address of its model; `prepare` leaves in the home what its
    user has there and gives the variables that it is told.
    """

    settings: Callable[[str, str], str]
    edit: Callable[[str, str], Sequence[Action]]
    prepare: Callable[[Path, str], Mapping[str, str]]

    def talk(self, slug: str, fault: Fault | None = None) -> Conversation:
        """Every turn costs something else, so that sums cannot coincide; `fault` meets the last."""
        turns = self.edit(f"{slug}.py", NUMBER_DONE)
        base = 100 * (1 + SLUGS.index(slug))
        uses = [TokenUse(base + n, 11 + n, 31 + n, 7 + n, 3) for n in range(len(turns))]
        steps = [Step(turn, use) for turn, use in zip(turns, uses, strict=True)]
        steps[-1] = Step(turns[-1], uses[-1], fault)
        return Conversation(mark(slug), steps)

    def refused(self, slug: str) -> Conversation:
        fault = Fault(401, times=None, message="this key is unknown")
        return Conversation(mark(slug), [Step(self.edit(f"{slug}.py", "")[0], fault=fault)])


def claude(program: str, _url: str) -> str:
    return f'[backend]\nname = "claude"\ncommand = [{json.dumps(program)}]\n'


def claude_edits(path: str, content: str) -> list[Action]:
    return [read_file(path), write_file(path, content), shell("git status"), DONE]


def claude_home(home: Path, url: str) -> dict[str, str]:
    del home
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": API_KEY}


def codex(program: str, url: str) -> str:
    return (
        f'[backend]\nname = "codex-cli"\ncommand = [{json.dumps(program)}]\n'
        f'model = "gpt-5.5"\nbase_url = "{url}/v1"\napi_key_env = "LOCAL_API_KEY"\n'
    )


def codex_edits(path: str, content: str) -> list[Action]:
    new = content.splitlines()[-1] if content else ""
    hunk = f"@@\n-    return None\n+{new}"
    patch = f"*** Begin Patch\n*** Update File: {path}\n{hunk}\n*** End Patch"
    return [UseTool("exec_command", {"cmd": f"cat {path}"}), UseTool("apply_patch", patch), DONE]


def codex_home(home: Path, url: str) -> dict[str, str]:
    del url
    (home / ".codex").mkdir()
    return {"LOCAL_API_KEY": API_KEY}


def preset(name: str, program: str) -> str:
    """The settings that docs/drivers.md has for a program, with its full path."""
    _, _, section = DOCUMENT.read_text(encoding="utf-8").partition(f"#### {name}\n")
    settings = section.partition("```toml\n")[2].partition("```")[0]
    assert settings.count(f'"{name}", ') == 1
    return settings.replace(f'"{name}", ', f"{json.dumps(program)}, ")


def opencode(program: str, _url: str) -> str:
    settings = preset("opencode", program).replace('"openai/gpt-6-luna"', '"local/small"')
    return settings.replace("OPENAI_API_KEY", "LOCAL_API_KEY")


def opencode_edits(path: str, content: str) -> list[Action]:
    write = UseTool("write", {"filePath": path, "content": content})
    return [UseTool("read", {"filePath": path}), write, DONE]


def opencode_home(home: Path, url: str) -> dict[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "{env:LOCAL_API_KEY}"},
        "models": {"small": {}},
    }
    config = {"provider": {"local": provider}}
    place = home / ".config" / "opencode" / "opencode.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(config), encoding="utf-8")
    return {"LOCAL_API_KEY": API_KEY}


def gemini(program: str, _url: str) -> str:
    return preset("gemini", program)


def gemini_edits(path: str, content: str) -> list[Action]:
    write = UseTool("write_file", {"file_path": path, "content": content})
    return [UseTool("read_file", {"file_path": path}), write, DONE]


def gemini_home(home: Path, url: str) -> dict[str, str]:
    place = home / ".gemini" / "settings.json"
    place.parent.mkdir()
    chosen = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    place.write_text(json.dumps(chosen), encoding="utf-8")
    return {"GEMINI_API_KEY": API_KEY, "GOOGLE_GEMINI_BASE_URL": url}


def aider(program: str, _url: str) -> str:
    return preset("aider", program)


def aider_edits(path: str, content: str) -> list[Action]:
    return [Say(f"Here it is.\n\n{path}\n```\n{content}```\n")]


def aider_home(home: Path, url: str) -> dict[str, str]:
    del home
    return {"OPENAI_API_BASE": f"{url}/v1", "OPENAI_API_KEY": API_KEY}


AGENTS = {
    "claude": Agent(claude, claude_edits, claude_home),
    "codex": Agent(codex, codex_edits, codex_home),
    "opencode": Agent(opencode, opencode_edits, opencode_home),
    "gemini": Agent(gemini, gemini_edits, gemini_home),
    "aider": Agent(aider, aider_edits, aider_home),
}


@pytest.fixture(params=AGENTS)
def named(request: pytest.FixtureRequest) -> tuple[Agent, str]:
    """An agent and its program."""
    variable = f"TIDEGATE_TEST_{request.param.upper()}"
    program = os.environ.get(variable) or shutil.which(request.param)
    if program is None:
        pytest.skip(f"no program `{request.param}` on PATH or named in {variable}")
    return AGENTS[request.param], program


@dataclass(frozen=True)
class Done:
    """A wave that is over, and what it was run on."""

    place: Place
    server: ModelServer
    wave: Wave
    before: Mapping[str, object]


@pytest.fixture
def wave_of(named: tuple[Agent, str], tmp_path: Path) -> Iterator[Callable[..., Done]]:
    agent, program = named
    places: list[Place] = []

    def run(talks: Sequence[Conversation]) -> Done:
        with ModelServer(Scenario(talks)) as server:
            settings = agent.settings(program, server.url)
            place = make_place(tmp_path, [a_number(slug) for slug in SLUGS], settings)
            places.append(place)
            before = place.checkout()
            wave = run_wave(place, agent.prepare(place.home, server.url))
        return Done(place, server, wave, before)

    yield run
    for place in places:
        place.clean_up()


def test_a_wave_of_three_ships_all_and_reports_what_the_server_billed(
    named: tuple[Agent, str], wave_of: Callable[..., Done], tmp_path: Path
) -> None:
    agent, _ = named
    done = wave_of([agent.talk(slug) for slug in SLUGS])
    wave, place, server = done.wave, done.place, done.server
    assert wave.exit_code == 0, wave.stderr + wave.stdout
    assert wave.shipped == set(SLUGS)
    (branch,) = place.wave_branches()
    assert_tests_pass_in_a_clean_clone(place, branch, tmp_path / "clone")
    assert {e.conversation for e in server.exchanges} == {mark(slug) for slug in SLUGS}
    assert wave.tokens == {slug: tokens(server.billed_for(mark(slug))) for slug in SLUGS}
    assert place.left_running() == {}
    assert place.checkout() == done.before
    assert API_KEY not in wave.stdout + wave.stderr


@pytest.mark.more
def test_a_provider_that_is_busy_once_costs_no_round_and_no_token(
    named: tuple[Agent, str], wave_of: Callable[..., Done]
) -> None:
    agent, _ = named
    busy = Fault(429, {"retry-after": "1"}, message="slow down")
    done = wave_of([agent.talk("alpha"), agent.talk("bravo"), agent.talk("charlie", busy)])
    wave, server = done.wave, done.server
    assert wave.exit_code == 0, wave.stderr + wave.stdout
    assert wave.shipped == set(SLUGS)
    assert {built["repairs"] for built in wave.report["wave"]["built"]} == {0}
    assert [e.status for e in server.exchanges if e.status != 200] == [429]
    assert wave.tokens == {slug: tokens(server.billed_for(mark(slug))) for slug in SLUGS}
    assert done.place.left_running() == {}


@pytest.mark.more
def test_a_key_that_the_provider_refuses_is_its_fault_and_costs_no_round(
    named: tuple[Agent, str], wave_of: Callable[..., Done]
) -> None:
    agent, _ = named
    done = wave_of([agent.talk("alpha"), agent.talk("bravo"), agent.refused("charlie")])
    wave = done.wave
    assert wave.exit_code == 1, wave.stderr + wave.stdout
    assert wave.shipped <= {"alpha", "bravo"}
    assert "this key is unknown" in wave.stdout
    (built,) = [b for b in wave.report["wave"]["built"] if b["slug"] == "charlie"]
    assert (built["verdict"], built["repairs"]) == ("undecided", 0)
    assert done.place.left_running() == {}
