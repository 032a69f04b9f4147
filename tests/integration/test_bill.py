"""What report, store, events and ledger say a wave used is what the model's server billed for it,
to the last token: built badly, repaired, reviewed, refused in between, stopped and gone on with.

The real programs are skipped where they are not installed; their model is a scripted server too.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from driver.backends.registry import driver_of
from state_store.api import StateAPI
from state_store.database.store import EventStore
from tests.support.model_script import (
    Action,
    Asked,
    Fault,
    Say,
    Scenario,
    Step,
    Structured,
    TokenUse,
    UseTool,
    read_file,
    write_file,
)
from tests.support.model_server import ModelServer
from tests.support.waves import Scene, built, item, verdicts
from tools import fleet_ledger
from tools.budget.budget import read_totals

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX shell tests")
NONCE = re.compile(r'"nonce": "([0-9a-f]{32})"')
REPAIR = re.compile(r"Test failed with exit code")
IN, OUT, CACHED = 2.0, 10.0, 0.5
MODEL = "gpt-5.5"  # one whose patches codex has a tool for
KEY = "the-key-of-this-test"


def patch(text: str, before: str) -> Sequence[Action]:
    del before
    files = [{"path": "a.txt", "contents": f"{text}\n"}]
    return [Structured({"files": files, "summary": "written", "done": True})]


def claude_edit(text: str, before: str) -> Sequence[Action]:
    del before
    return [read_file("a.txt"), write_file("a.txt", f"{text}\n"), Say("It is done.")]


def codex_edit(text: str, before: str) -> Sequence[Action]:
    hunk = f"*** Begin Patch\n*** Update File: a.txt\n@@\n-{before}\n+{text}\n*** End Patch"
    return [UseTool("apply_patch", hunk), Say("It is done.")]


EDITS = {"http": patch, "claude": claude_edit, "codex": codex_edit}
PROGRAMS = {n: os.environ.get(f"TIDEGATE_TEST_{n.upper()}") or shutil.which(n) for n in EDITS}


@dataclass(frozen=True)
class Model(Scenario):
    """Builds `bad`, repairs to `good`, reviews; every answer costs something else.

    It is refused once at each turn of `faults`, by what is asked; while `mute`, its reviews are
    words that decide nothing.
    """

    kind: str = "http"
    faults: Mapping[str, Fault] = field(default_factory=dict)
    mute: list[bool] = field(default_factory=lambda: [True])
    answered: list[str] = field(default_factory=list)

    def find(self, asked: Asked) -> tuple[str | None, Step]:
        what = "review" if NONCE.search(asked.text) else "build"
        if what == "build" and REPAIR.search(asked.text):
            what = "repair"
        n = len(self.answered)
        self.answered.append(what)
        use = TokenUse(100 + n, 11 + n, 31 + n, 7 + n, 3)
        return f"{what}", Step(self._does(what, asked), use, self.faults.get(what))

    def _does(self, what: str, asked: Asked) -> Action:
        if what == "review":
            return self._review(asked)
        texts = ("bad", "base") if what == "build" else ("good", "bad")
        steps = EDITS[self.kind](*texts)
        return steps[min(asked.turns, len(steps) - 1)]

    def _review(self, asked: Asked) -> Action:
        nonce = NONCE.search(asked.text)
        if self.mute[0] or nonce is None:
            return Say("I like it.")
        said = {"verdict": "approve", "summary": "seen", "findings": []}
        return Structured({"nonce": nonce[1], **said})


def config(kind: str, url: str) -> str:
    program = json.dumps([PROGRAMS[kind]])
    tables = {
        "http": f'name = "openai-compatible"\nbase_url = "{url}/v1"\napi_key_env = "LAB"\n',
        "claude": f'name = "claude"\ncommand = {program}\n',
        "codex": f'name = "codex-cli"\ncommand = {program}\nbase_url = "{url}/v1"\n'
        'api_key_env = "LAB"\n',
    }
    model = "" if kind == "claude" else f'model = "{MODEL}"\n'
    price = f"input = {IN}, output = {OUT}, cached = {CACHED}"
    return (
        f'[backend]\n{tables[kind]}{model}[review]\nmode = "always"\n'
        f'[verify]\ncanary = false\nred_first = "off"\n[prices]\n"{MODEL}" = {{ {price} }}\n'
    )


def billed(server: ModelServer) -> tuple[int, float]:
    """Tokens and USD of every answer that was given."""
    uses = [exchange.usage for exchange in server.exchanges if exchange.usage]
    tokens = sum(u.input_tokens + u.cache_read + u.cache_write + u.output_tokens for u in uses)
    dear = sum((u.input_tokens + u.cache_write) * IN + u.output_tokens * OUT for u in uses)
    return tokens, (dear + sum(u.cache_read for u in uses) * CACHED) / 1e6


def in_the_books(state: Path, wave: str) -> dict[str, int]:
    """Tokens by everything that is kept of them."""
    rows = fleet_ledger.parse_ledger_rows(state, archived=True)
    of_wave, of_day = read_totals(state, wave)
    with EventStore(state / "tracker_events.db") as store:
        events = [e["payload"] for e in store.read("agent_traces") if e["type"] == "agent_billed"]
    return {
        "ledger": sum(row["tokens_in"] + row["tokens_out"] for row in rows),
        "events": sum(event["tokens"] for event in events),
        "events in and out": sum(e["tokens_in"] + e["tokens_out"] for e in events),
        "wave": of_wave.tokens,
        "day": of_day.tokens,
        "traces": _traced(state),
    }


def _traced(state: Path) -> int:

    with StateAPI(state / "tracker_events.db") as api:
        return int(api.project("agent_traces")["totals"]["tokens"])


def usd_in_the_events(state: Path) -> float:
    with EventStore(state / "tracker_events.db") as store:
        events = [e["payload"] for e in store.read("agent_traces") if e["type"] == "agent_billed"]
    return math.fsum(event["cost_usd"] for event in events)


CASES = [
    pytest.param(
        "http", {"build": Fault(429, {"retry-after": "0"}), "review": Fault(500)}, id="http"
    ),
    *(
        pytest.param(
            name,
            {"build": Fault(429, {"retry-after": "0"})},
            id=name,
            marks=pytest.mark.skipif(not PROGRAMS[name], reason=f"no program `{name}`"),
        )
        for name in ("claude", "codex")
    ),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("kind", "faults"), CASES)
def test_every_book_has_what_the_server_billed(
    kind: str, faults: Mapping[str, Fault], tmp_path: Path
) -> None:
    model = Model((), kind=kind, faults=faults)
    with ModelServer(model) as server:
        environ = {"LAB": KEY, "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": KEY}
        files = {"a.txt": "base\n"}
        scene = Scene(tmp_path, files, config=config(kind, server.url), environ=environ)
        items = [item("a", "a.txt", "grep -qx good a.txt")]
        first = scene.run(driver_of(scene.settings), items)
        assert (verdicts(first), built(first)["a"]["repairs"]) == ({"a": "undecided"}, 1)
        model.mute[0] = False
        second = scene.run(driver_of(scene.settings), items, resume=True)
    assert second["shipped"] == ["a"]
    statuses = [exchange.status for exchange in server.exchanges if exchange.status != 200]
    assert set(statuses) == {fault.status for fault in faults.values()}
    reports = [first["tokens"], second["tokens"]]
    assert [told["unmetered"] for told in reports] == [0, 0]
    tokens, usd = billed(server)
    books = in_the_books(scene.state, "w1")
    parts = ("buildIn", "buildOut", "repairIn", "repairOut", "verifyIn", "verifyOut")
    books |= {
        "reports": sum(told["total"] for told in reports),
        "parts": sum(told[part] for told in reports for part in parts),
        "attempts": sum(_of_items(report) for report in (first, second)),
        "budget": second["budget"]["wave"]["tokens"]["spent"],
    }
    assert books == dict.fromkeys(books, tokens)
    costs = [sum(told["costUsd"] for told in reports), usd_in_the_events(scene.state)]
    assert costs == pytest.approx([costs[0]] * 2, abs=1e-12)
    if kind != "claude":  # that one has prices of its own
        assert costs[0] == pytest.approx(usd, abs=1e-12)
    # What counts below a ceiling is whole micro-USD, rounded up for each dispatch.
    counted = read_totals(scene.state, "w1")[1].usd / 1e6
    dispatches = read_totals(scene.state, "w1")[1].dispatches
    assert 0 <= counted - costs[0] <= dispatches / 1e6


def _of_items(report: Mapping[str, Any]) -> int:
    return sum(record["usage"]["totalTokens"] for record in report["built"])
