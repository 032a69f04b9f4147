"""The backends that review, each in a whole wave: a model behind HTTP, and the real programs.

The programs are skipped where they are not installed; their model is a scripted server.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from state_store.api import StateAPI
from state_store.write_api import STATE_DB_FILENAME
from tests.support.beside import beside
from tests.support.model_script import (
    Asked,
    Say,
    Scenario,
    Step,
    Structured,
    UseTool,
    write_file,
)
from tests.support.model_server import ModelServer
from tests.support.waves import Scene, ScriptedDriver, built, item, verdicts, writes
from tools import fleet_ledger

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX shell tests")
PROGRAMS = {name: os.environ.get(f"TIDEGATE_TEST_{name.upper()}") or shutil.which(name)
            for name in ("claude", "codex")}  # fmt: skip
NONCE = re.compile(r'"nonce": "([0-9a-f]{32})"')


@dataclass(frozen=True)
class Critic(Scenario):
    """A model that reviews: asks once for changes where it sees a flaw, then approves."""

    before: tuple[UseTool, ...] = ()
    words: str = ""

    def find(self, asked: Asked) -> tuple[str | None, Step]:
        if asked.turns < len(self.before):
            return "critic", Step(self.before[asked.turns])
        nonce = NONCE.search(asked.text)
        assert nonce is not None
        if self.words:
            return "critic", Step(Say(self.words))
        flawed = "\n+good, with a flaw" in asked.text.split("The whole change")[1]
        found = {"file": "a.txt", "line": 1, "severity": "major", "why": "a flaw", "check": "look"}
        return "critic", Step(
            Structured(
                {
                    "nonce": nonce[1],
                    "verdict": "request_changes" if flawed else "approve",
                    "summary": "seen",
                    "findings": [found] if flawed else [],
                }
            )
        )


def over_http(url: str) -> tuple[str, dict[str, str]]:
    return f'name = "openai-compatible"\nbase_url = "{url}/v1"\nmodel = "critic"\n', {}


def by_claude(url: str) -> tuple[str, dict[str, str]]:
    program = json.dumps([PROGRAMS["claude"]])
    environ = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "the-key-of-this-test"}
    return f'name = "claude"\ncommand = {program}\n', environ


def by_codex(url: str) -> tuple[str, dict[str, str]]:
    program = json.dumps([PROGRAMS["codex"]])
    told = f'name = "codex-cli"\ncommand = {program}\nbase_url = "{url}/v1"\nmodel = "critic"\n'
    return told + 'api_key_env = "LAB"\n', {"LAB": "the-key-of-this-test"}


REVIEWERS = [
    pytest.param(over_http, id="http"),
    pytest.param(
        by_claude,
        id="claude",
        marks=pytest.mark.skipif(not PROGRAMS["claude"], reason="no program `claude`"),
    ),
    pytest.param(
        by_codex,
        id="codex",
        marks=pytest.mark.skipif(not PROGRAMS["codex"], reason="no program `codex`"),
    ),
]
Reviewing = Callable[[str], tuple[str, dict[str, str]]]


def play(folder: Path, reviewing: Reviewing, critic: Critic) -> tuple[dict[str, Any], ModelServer]:
    with ModelServer(critic) as server:
        table, environ = reviewing(server.url)
        config = f"[review.backend]\n{table}"
        scene = Scene(folder, {"a.txt": "base\n"}, config=config, environ=environ)
        steps = [writes(a__txt="good, with a flaw\n"), writes(a__txt="good\n")]
        driver = ScriptedDriver({"a": steps}, tier=3, environ=scene.environ)
        return scene.run(driver, [item("a", "a.txt", "grep -q good a.txt")]), server


@pytest.mark.sampled(1)
@pytest.mark.parametrize("reviewing", REVIEWERS)
@beside
def test_a_flaw_is_found_repaired_and_the_rest_approved(folder: Path, reviewing: Reviewing) -> None:
    report, server = play(folder, reviewing, Critic(()))
    record = built(report)["a"]
    told = [(one["verdict"], one["reason"]) for one in record["reviews"]]
    assert told == [("changes_requested", None), ("approved", None)]
    assert (report["shipped"], record["repairs"]) == (["a"], 1)
    bill = server.billed
    told_in, told_out = report["tokens"]["verifyIn"], report["tokens"]["verifyOut"]
    assert told_in == bill.input_tokens + bill.cache_read + bill.cache_write
    assert told_out == bill.output_tokens
    assert in_every_book(folder / "state") == [told_in + told_out] * 2


def in_every_book(state: Path) -> list[int]:
    """What reviews used, by the ledger and by the events."""
    rows = fleet_ledger.parse_ledger_rows(state, archived=True)
    with StateAPI(state / STATE_DB_FILENAME) as api:
        traces = api.project("agent_traces")["agents"]
    return [
        sum(row["tokens_in"] + row["tokens_out"] for row in rows if row["phase"] == "review"),
        sum(trace["tokens"] for trace in traces if trace["phase"] == "review"),
    ]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("reviewing", REVIEWERS)
@beside
def test_words_are_no_approval(folder: Path, reviewing: Reviewing) -> None:
    report, _ = play(folder, reviewing, Critic((), words="I approve of this change."))
    assert (verdicts(report), report["shipped"]) == ({"a": "undecided"}, [])


@pytest.mark.parametrize("reviewing", REVIEWERS[1:2])
@beside
def test_the_program_that_reviews_has_no_tool_to_write_with(
    folder: Path, reviewing: Reviewing
) -> None:
    critic = Critic((), before=(write_file("a.txt", "mine\n"),))
    report, _ = play(folder, reviewing, critic)
    assert report["shipped"] == []
