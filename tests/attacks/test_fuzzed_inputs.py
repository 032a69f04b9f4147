"""Whatever stands in a file that Tidegate reads, bad input is all that is said of it, and soon.

Configs, journals, verdicts of reviewers, usage files, recordings, the ledger, rows of the store and
requests to the live page; trackers, manifests and answers of models have modules of their own. Each
case has a seed, which a failure names. Nothing on disk may change.
"""

from __future__ import annotations

import copy
import json
import random
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from driver.agents.review_verdict import read_verdict
from driver.backends.cli.claude_stream import read_stream
from driver.backends.cli.codex_events import read_events
from driver.backends.command import read_usage
from driver.backends.recording import load_recording
from driver.domain.item_key import ItemKey
from driver.pipeline_run.resume_state import resume_state
from state_store.database.store import EventStore
from state_store.documents.errors import TidegateError
from state_store.documents.journal import FOLDER, load_entries, write_entry
from state_store.views.wave_progress import read_progress
from tests.attacks.test_fuzzed_answers import places
from tests.integration.test_live_page import served
from tools.ledger.rows import all_rows, rows_in, summed
from tools.settings.load import load
from tools.settings.schema import KINDS

ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2.5, 10**30, 1e308, "", " ", "\0", "\ud800", "todo", "../x", "/x",
    "C:\\x", ".git", "a" * 300, [], [[]], ["a"], [1], [None], {}, {"a": 1}, [{"slug": "x"}], "-x",
    "2026-13-45", "9999-12-31T23:59:59-23:59", "\u00e9", "docs/", "!!!", "\u202e", "=1+1", "| a |",
]  # fmt: skip
BYTES = (
    b"", b"\xff", b"[", b"}", b"NaN", b'"', b"\\", b"1e999", b",", b"\xef\xbb\xbf", b"\0", b"\n",
    b"\xed\xa0\x80", b"9" * 5000, b"[" * 3000, b'{"a":' * 3000, b"=", b"#", b"'''", b"\\ud800",
)  # fmt: skip


def spoiled(chance: random.Random, document: Any) -> Any:
    """The document with some values replaced or removed."""
    document = copy.deepcopy(document)
    for _ in range(chance.randrange(4)):
        there = places(document)
        if not there:
            break
        holder, key = chance.choice(there)
        if isinstance(holder, dict) and chance.random() < 0.3:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(chance.choice(ODD))
    return document if chance.random() < 0.95 else copy.deepcopy(chance.choice(ODD))


def torn(chance: random.Random, data: bytes) -> bytes:
    """The bytes with some of them replaced."""
    found = bytearray(data)
    for _ in range(chance.choice([0, 0, 1, 3])):
        at = chance.randrange(len(found) + 1)
        found[at : at + chance.randrange(4)] = chance.choice(BYTES)
    return bytes(found)


def as_bytes(chance: random.Random, document: Any) -> bytes:
    return torn(chance, json.dumps(spoiled(chance, document)).encode())


def refused(work: Callable[[], object]) -> None:
    """Does the work; a refusal is one sentence that can be printed."""
    said = "nothing"
    try:
        work()
    except TidegateError as refusal:
        said = str(refusal)
    assert said.strip()
    assert "Traceback" not in said
    said.encode("utf-8", "surrogatepass")


TOML = """\
state_dir = "state"
[backend]
name = "claude"
timeout_s = 30
models = { worker = "m" }
command = ["x", "y"]
[verify]
env = ["A"]
canary = true
[limits]
max_workers = 3
max_wave_usd = 1.5
[ship]
mode = "branch"
[secrets]
files = ["a"]
[[pipeline.phase]]
name = "build"
"""


def a_config(chance: random.Random, folder: Path) -> None:
    lines = TOML.splitlines()
    for _ in range(chance.randrange(4)):
        name = chance.choice(list(KINDS)).rpartition(".")[2]
        value = json.dumps(chance.choice(ODD))
        lines.insert(chance.randrange(len(lines) + 1), f"{name} = {value}")
        if chance.random() < 0.3:
            lines.pop(chance.randrange(len(lines)))
    file = folder / "tidegate.toml"
    file.write_bytes(torn(chance, "\n".join(lines).encode()))
    environ = {
        f"TIDEGATE_{name.replace('.', '_').upper()}": str(chance.choice(ODD))
        for name in chance.sample(list(KINDS), 3)
    }
    refused(lambda: load(config=file, project=folder, cwd=folder, environ=environ))


ENTRY = {
    "slug": "x", "phase": "verified", "timestamp": 1.0, "verified": True, "testExit": 0,
    "repairs": 1, "waveId": "w", "content": "c", "task": "t", "verdict": "verified", "attempt": 1,
    "commit": "a" * 40,
    "tree": "b" * 40, "settled": False, "proven": True, "approvedTree": "b" * 40,
    "afterApproval": ["a"], "reviews": [{"number": 1, "tree": "t", "verdict": "approved",
    "findings": [{"file": "a", "line": 1, "text": "t", "severity": "high"}],
    "usage": {"inputTokens": 1}}],
    "phases": [{"name": "build", "phase": "build", "number": 1, "status": "completed",
    "tree": "b" * 40, "usage": {"inputTokens": 1, "costUsd": 0.5}, "engine": {"name": "n"},
    "artifacts": ["a"]}],
}  # fmt: skip


def a_journal(chance: random.Random, folder: Path) -> None:
    file = folder / FOLDER / "x.json"
    file.write_bytes(as_bytes(chance, ENTRY))
    entries, _ = load_entries(folder)
    key = ItemKey("x", "/r", None, "c", "t")
    for entry in entries.values():
        resume_state(entry, key, folder, "", from_phase=chance.random() < 0.5)


VERDICT = {
    "nonce": "n", "verdict": "request_changes", "summary": "s",
    "findings": [{"file": "a.py", "line": 3, "severity": "major", "why": "t", "check": "x"}],
}  # fmt: skip


def a_verdict(chance: random.Random, _: Path) -> None:
    document = spoiled(chance, VERDICT)
    answer = read_verdict(chance.choice([document, json.dumps(document)]), "n")
    str(answer).encode("utf-8", "surrogatepass")


USAGE = {"input_tokens": 5, "output_tokens": 2, "cost_usd": 0.1}


def a_usage_file(chance: random.Random, folder: Path) -> None:
    file = folder / "usage.json"
    file.write_bytes(as_bytes(chance, USAGE))
    usage, why = read_usage(file)
    assert usage.total_tokens is None or usage.total_tokens >= 0
    assert isinstance(why, str)


STREAM = [
    {"type": "system", "subtype": "init", "model": "m", "session_id": "s"},
    {"type": "assistant", "message": {"model": "m", "usage": {"input_tokens": 1},
     "content": [{"type": "text", "text": "t"}, {"type": "tool_use", "name": "n", "input": {}}]}},
    {"type": "result", "subtype": "success", "is_error": False, "result": "r",
     "total_cost_usd": 0.1, "usage": {"input_tokens": 1},
     "modelUsage": {"m": {"inputTokens": 1, "costUSD": 0.1}}},
]  # fmt: skip


CODEX = [
    {"type": "thread.started", "thread_id": "1"},
    {"type": "item.completed", "item": {"type": "agent_message", "text": "t"}},
    {"type": "error", "message": "rate limit reached, try again in 3s"},
    {"type": "turn.completed", "usage": {"input_tokens": 5, "cached_input_tokens": 1}},
    {"type": "turn.failed", "error": {"message": "m"}},
]  # fmt: skip


def a_stream(chance: random.Random, _: Path) -> None:
    """The events of an agent program."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    for read, events in ((read_stream, STREAM), (read_events, CODEX)):
        lines = [as_bytes(chance, one).decode("utf-8", "replace") for one in events]
        reply = read(chance.sample(lines, chance.randrange(1, len(lines) + 1)), now)
        str(reply).encode("utf-8", "surrogatepass")


RECORDING = [
    {"format": "tidegate-recording", "version": 1},
    {"item": "x", "phase": "build", "number": 1, "prompt_sha256": "0" * 64, "duration_s": 1.0,
     "text": "t", "ok": True, "files": [{"path": "a.py", "contents": "x"}], "usage": USAGE},
]  # fmt: skip


def a_recording(chance: random.Random, folder: Path) -> None:
    file = folder / "recording.jsonl"
    lines = [json.dumps(spoiled(chance, line)).encode() for line in RECORDING]
    file.write_bytes(torn(chance, b"\n".join(lines) + b"\n"))
    refused(lambda: load_recording(file))


ROW = "| 2026-01-01T00:00:00Z | w | x | build | m | 10 | 5 | 0.10 | 12.5 | ok | claude | 1 |\n"


def a_ledger(chance: random.Random, folder: Path) -> None:
    file = folder / "ledger" / "OUTCOMES-LEDGER.md"
    cells = ROW.split("|")
    for _ in range(chance.randrange(4)):
        cells[chance.randrange(len(cells))] = (
            str(chance.choice(ODD)).encode(errors="replace").decode()
        )
    file.write_bytes(torn(chance, ("# ledger\n" + ROW + "|".join(cells) + ROW).encode()))

    def read() -> None:
        summed(rows_in(file))
        all_rows(folder)

    refused(read)


PAYLOADS = [
    ("wave/w", "wave_started", {"wave_id": "w", "items": ["x"], "ceilings": {"usd": 1}}),
    ("wave/w", "attempt_started", {"slug": "x", "phase": "build", "number": 1, "model": "m"}),
    ("wave/w", "phase_entered", {"slug": "x", "phase": "test", "why": "y", "at": 1.0}),
    ("wave/w", "attempt_judged", {"slug": "x", "verdict": "verified", "reason": None, "number": 1}),
    ("wave/w", "item_shipped", {"slug": "x", "commit": "a" * 40, "branch": "b", "tip": "c"}),
    ("tracker", "item_created", {"id": "T-1", "slug": "x", "status": "todo", "ownsFiles": ["a"]}),
    ("wave/w", "wave_finished", {"aborted": False, "abort_reason": None}),
]  # fmt: skip


def some_rows(chance: random.Random, folder: Path) -> None:
    """Rows that another program changed in the store."""
    path = folder / "rows.db"
    for ending in ("", "-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)
    with EventStore(path) as store:
        for stream, kind, payload in PAYLOADS:
            store.append(stream, kind, payload)
    with sqlite3.connect(path) as raw:
        for (number,) in list(raw.execute("SELECT id FROM events")):
            if chance.random() < 0.4:
                text = as_bytes(chance, chance.choice(PAYLOADS)[2]).decode("utf-8", "replace")
                with suppress(sqlite3.IntegrityError, sqlite3.OperationalError):
                    raw.execute("UPDATE events SET payload = ? WHERE id = ?", (text, number))

    def read() -> None:
        with EventStore(path) as store:
            read_progress(store, "w")
            store.items()
            list(store.scan("wave/w"))

    refused(read)


CASES: dict[str, Callable[[random.Random, Path], None]] = {
    "config": a_config,
    "journal": a_journal,
    "verdict": a_verdict,
    "usage file": a_usage_file,
    "stream": a_stream,
    "recording": a_recording,
    "ledger": a_ledger,
    "rows": some_rows,
}
SLOW = {"rows": 20}  # each case writes a database


def run(name: str, rounds: int, folder: Path) -> None:
    (folder / FOLDER).mkdir()
    (folder / "ledger").mkdir()
    for seed in range(max(1, rounds // SLOW.get(name, 1))):
        try:
            CASES[name](random.Random(f"{name} {seed}"), folder)
        except BaseException as fault:
            fault.add_note(f"{name}: the seed was {seed}")
            raise


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", CASES)
def test_a_sample_of_bad_input_is_refused_or_understood(name: str, tmp_path: Path) -> None:
    run(name, 40, tmp_path)


@pytest.mark.sweep
@pytest.mark.parametrize("name", CASES)
def test_ten_thousand_bad_inputs_are_refused_or_understood(name: str, tmp_path: Path) -> None:
    run(name, 10_000, tmp_path)


REQUEST = (
    b"GET /items/0/output?name=test-1.out HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
    b"Origin: http://127.0.0.1:%d\r\nContent-Length: 2\r\nX-Tidegate-Token: t\r\n\r\n{}"
)


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        yield client


def answers(port: int, request: bytes) -> bytes:
    """The answer to a request whose sender has nothing more to say."""
    with connected(port) as client:
        with suppress(OSError):
            client.sendall(request)
            client.shutdown(socket.SHUT_WR)
        found = b""
        with suppress(ConnectionError):
            while more := client.recv(65_536):
                found += more
                if b"event-stream" in found:
                    break
        return found


def ask_the_live_page(rounds: int, folder: Path) -> None:
    with served(folder / "state", {}) as server:
        port = server.server_port
        for seed in range(rounds):
            chance = random.Random(f"serve {seed}")
            words = (b"GET", b"POST", b"HEAD", b"PUT", b"", b"\xff", b"GET GET")
            paths = (b"/", b"/stop", b"/items/9/output", b"/items/0/change", b"//[", b"/%00", b"*",
                     b"/items/" + b"9" * 5000 + b"/output", b"http://[/", b"/events2")  # fmt: skip
            request = REQUEST % (port, port)
            request = request.replace(b"GET", chance.choice(words), 1)
            request = request.replace(b"/items/0/output", chance.choice(paths), 1)
            answer = answers(port, torn(chance, request))
            assert b"Traceback" not in answer, f"serve: the seed was {seed}"
            # A request without a version is one of HTTP/0.9, whose answer has no headers.
            begun = answer.startswith((b"HTTP/1", b"{", b"<!doctype html>"))
            assert not answer or begun, f"serve: the seed was {seed}"


def test_a_sample_of_bad_requests_is_answered(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ask_the_live_page(40, tmp_path)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.sweep
def test_many_bad_requests_are_answered(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ask_the_live_page(3_000, tmp_path)
    assert "Traceback" not in capfd.readouterr().err


def test_a_valid_document_of_each_kind_is_understood(tmp_path: Path) -> None:
    """Else the fuzz would only test the first check."""
    write_entry(tmp_path, "x", "verified", ENTRY)
    entries, bad = load_entries(tmp_path)
    assert len(entries) == 1
    assert not bad
    file = tmp_path / "usage.json"
    file.write_text(json.dumps(USAGE), encoding="utf-8")
    usage, why = read_usage(file)
    assert usage.input_tokens == 5, why
    assert read_verdict(VERDICT, "n").findings
