"""`tidegate status`: what people see of items, waves, agents and budget, and its document."""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from driver.cli import status
from driver.execution.process_identity import identity
from driver.terminal.invocation import typed
from state_store.api import StateAPI
from state_store.database.spend import Charge, Purpose
from state_store.views.store_summary import StoreSummary
from tests.support.programs import ROOT, Ran, git, run_here
from tools import halt
from tools.settings.load import load
from tools.settings.quick import CEILINGS, quick_ceilings, quick_top

pytestmark = pytest.mark.in_walls

PROGRAM = ROOT / "driver" / "tidegate.py"
LATER = "2999-01-01T00:00:00Z"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A repository with a tracker, one ended wave and two uses, one of them unknown."""
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "tidegate.toml").write_text(
        "[limits]\nmax_wave_tokens = 5_000  # enough\nmax_daily_usd = 2.5\n", encoding="utf-8"
    )
    state = tmp_path / "state"
    state.mkdir()
    items = [
        {"id": "T-1", "slug": "a", "status": "in_progress"},
        {"id": "T-2", "slug": "b", "status": "todo", "dependsOn": ["T-1"]},
        {"id": "T-3", "slug": "c", "status": "blocked", "lastError": "red \x1b[31m twice"},
        {"id": "T-4", "slug": "d", "status": "todo", "nextAttemptAt": LATER, "lastError": "slow"},
        {"id": "T-5", "slug": "e", "status": "todo"},
    ]
    (state / "tracker.json").write_text(json.dumps({"version": 1, "items": items}))
    with StateAPI(state / "tracker_events.db") as api:
        begin(api, "w1", ["a", "c"])
        api.append("wave:w1", "item_shipped", {"slug": "a", "commit": "c1"})
        api.append("wave:w1", "item_settled", {"slug": "c", "verdict": "failed", "reason": "red"})
        api.append("wave:w1", "wave_finished", {"aborted": False, "abort_reason": None})
        for tokens, metered in ((700, True), (300, False)):
            use(api, "w1", tokens, metered=metered)
    return tmp_path


def begin(api: StateAPI, wave: str, slugs: list[str]) -> None:
    api.append(f"wave:{wave}", "wave_started", {"wave_id": wave, "items": slugs})


def use(api: StateAPI, wave: str, tokens: int, *, metered: bool) -> None:
    now = time.time()
    with api.store.transaction() as transaction:
        purpose = Purpose(wave, "a", 1, "build", "claude", "")
        reserved = transaction.spend.reserve(purpose, "me", 1000, 0, now, now + 60)
        known = tokens if metered else None
        charge = Charge(tokens, 250_000, known, None, metered, True, 1.0, "verified", "opus")
        transaction.spend.settle(reserved, charge, now)


def looked(folder: Path, *words: str) -> Ran:
    return run_here(PROGRAM, "status", *words, cwd=folder)


def document(folder: Path, *words: str) -> dict[str, Any]:
    found = json.loads(looked(folder, *words, "--json").out)
    assert isinstance(found, dict)
    return found


def test_the_document_tells_items_waves_and_budget(top: Path) -> None:
    found = document(top)
    assert found["schema"] == "tidegate/status/1"
    assert found["items"]["counts"] == {"in_progress": 1, "todo": 3, "blocked": 1}
    reasons = {one["id"]: one["reason"] for one in found["items"]["waiting"]}
    assert reasons["T-2"] == "for T-1, which is shipped and not merged yet"
    assert reasons["T-4"] == f"until {LATER}: slow"
    assert "T-5" not in reasons
    (wave,) = found["waves"]
    assert (wave["wave_id"], wave["shipped"], wave["not_shipped"]) == ("w1", ["a"], {"c": "failed"})
    assert (wave["tokens"], wave["cost_usd"], wave["unmetered"]) == (1000, 0.5, 1)
    budget = found["budget"]
    assert (budget["tokens"], budget["dispatches"]) == (1000, 2)
    assert budget["ceilings"] == {"max_wave_tokens": 5000, "max_daily_usd": 2.5}
    assert (found["halt"], found["running"], found["parked"]) == (None, [], None)


def test_people_read_the_same_in_any_folder_of_the_repository(top: Path) -> None:
    (top / "sub").mkdir()
    done = looked(top / "sub")
    assert (done.code, done.err) == (0, "")
    assert "items: 1 in_progress, 3 todo, 1 blocked\n" in done.out
    assert "blocked T-3 c: red \\x1b[31m twice\n" in done.out
    assert "shipped 1 of 2 items, 1 failed; 1k tokens, $0.50\n" in done.out
    assert "today (UTC): 1k tokens, $0.50 of $2.50\n" in done.out
    assert "run --execute    runs the next wave\n" in done.out
    assert not (top / "sub" / "state").exists()


def test_a_halt_stands_first_with_its_remedy(top: Path) -> None:
    halt.halt("the tests are down", top / "state")
    done = looked(top)
    assert done.out.startswith("halted: the tests are down (since ")
    assert "halt --clear" in done.out


def test_a_running_wave_names_host_process_and_the_phase_of_each_item(top: Path) -> None:
    me = identity(os.getpid())
    assert me is not None
    with StateAPI(top / "state" / "tracker_events.db") as api:
        long = "totals-count-the-quantity-of-each-line"
        begin(api, "w2", ["b", "e", long])
        api.append("wave:w2", "attempt_started", {"slug": "b", "number": 1, "phase": "build"})
    record = {"wave_id": "w2", "folders": [], "host": socket.gethostname(), "pid": me.pid}
    record |= {key: getattr(me, key) for key in ("started", "boot", "numbered_by")}
    folder = top / "state" / "runs" / "w2"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(record))
    (wave,) = document(top)["running"]
    assert (wave["wave_id"], wave["host"], wave["pid"]) == ("w2", socket.gethostname(), me.pid)
    phases = {one["slug"]: one["phase"] for one in wave["items"]}
    assert phases == {"b": "build", "e": "waiting", long: "waiting"}
    rows = looked(top).out.splitlines()[2:5]
    assert {row.find("build" if " build" in row else "waiting") for row in rows} == {len(long) + 4}
    assert [one["id"] for one in document(top)["items"]["running"]] == ["T-2", "T-5"]
    assert f"running: wave w2 on {socket.gethostname()} (process {me.pid})" in looked(top).out
    (folder / "run.json").write_text(json.dumps({**record, "pid": 2**22 + 1}))
    assert document(top)["running"] == []


def test_a_parked_backend_is_told_until_its_time(top: Path) -> None:
    with StateAPI(top / "state" / "tracker_events.db") as api:
        begin(api, "w2", ["e"])
        api.append("wave:w2", "wave_finished", {"aborted": True, "abort_reason": "parked"})
    folder = top / "state" / "runs" / "w2"
    folder.mkdir(parents=True)
    for until, told in ((LATER, True), ("2001-01-01T00:00:00Z", False)):
        (folder / "report.json").write_text(json.dumps({"parked_until": until}))
        assert (f"until {LATER}" in looked(top).out.splitlines()[0]) == told


def test_an_empty_folder_is_told_what_to_do(tmp_path: Path) -> None:
    done = looked(tmp_path)
    assert (done.code, done.err) == (0, "")
    assert "items: none\n" in done.out
    assert "init    sets up this repository" in done.out
    assert not (tmp_path / "state").exists()


def test_the_newest_waves_come_first_and_no_more_than_asked_for(top: Path) -> None:
    with StateAPI(top / "state" / "tracker_events.db") as api:
        for number in range(2, 9):
            begin(api, f"w{number}", [])
    assert [wave["wave_id"] for wave in document(top, "--waves", "2")["waves"]] == ["w8", "w7"]
    assert len(document(top)["waves"]) == 5
    assert document(top, "--waves", "0")["waves"] == []


def test_without_a_readable_tracker_the_items_are_those_of_the_store(top: Path) -> None:
    with StateAPI(top / "state" / "tracker_events.db") as api:
        api.append("tracker", "item_created", {"id": "S-1", "status": "todo"})
    (top / "state" / "tracker.json").write_text("{")
    found = document(top)
    assert found["items"]["counts"] == {"todo": 1}
    assert "cannot be read" in found["notes"][0]


def test_damage_is_a_note_and_no_traceback(top: Path) -> None:
    (top / "state" / "tracker_events.db").write_bytes(b"garbage" * 1000)
    found = document(top)
    assert any("tracker_events.db cannot be read" in note for note in found["notes"])
    assert found["items"]["counts"]["todo"] == 3


@pytest.mark.skipif(os.name == "nt", reason="named pipes")
@pytest.mark.parametrize("kind", ["empty", "folder", "pipe", "wrong kinds"])
def test_a_database_that_is_none_is_no_traceback(top: Path, kind: str) -> None:
    database = top / "state" / "tracker_events.db"
    if kind == "wrong kinds":
        with StateAPI(database) as api:
            api.append("wave:w1", "item_settled", ["a"])
    else:
        for path in (top / "state").glob("tracker_events.db*"):
            path.unlink()
    if kind == "empty":
        database.touch()
    elif kind == "folder":
        database.mkdir()
    elif kind == "pipe":
        os.mkfifo(database)
    ran = looked(top)
    assert (ran.code, ran.err) == (0, "")
    assert ("note: the database" in ran.out) == (kind != "empty")


@pytest.mark.sampled(1)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["status"], ["logs"], ["state", "waves"], ["status", "--json"]])
def test_a_full_disk_below_the_output_is_told(top: Path, words: list[str]) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        command = [sys.executable, str(PROGRAM), *words]
        ran = subprocess.run(
            command, check=False, cwd=top, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ran.returncode == 4
    (line,) = ran.stderr.splitlines()
    assert line.endswith("the output cannot be written: No space left on device")


def test_an_unknown_cost_is_not_zero(top: Path) -> None:
    shown = looked(top).out
    assert "tokens, $0.50" in shown
    with closing(sqlite3.connect(top / "state" / "tracker_events.db")) as connection, connection:
        connection.execute("UPDATE spend SET usd = 0, priced = 0")
    shown = looked(top).out
    assert shown.count("tokens, cost unknown") == 2
    assert "$0" not in shown.replace("$0.", "")


def test_a_look_writes_nothing(top: Path) -> None:
    before = sorted((path.name, path.stat().st_mtime_ns) for path in (top / "state").iterdir())
    with StoreSummary(str(top / "state" / "tracker_events.db")) as summary:
        assert summary.newest_waves(1) == ["w1"]
    looked(top)
    after = sorted((path.name, path.stat().st_mtime_ns) for path in (top / "state").iterdir())
    assert [one for one in after if one[0][-4:] not in ("-shm", "-wal")] == before


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("", True),
        ("[limits]\nmax_wave_tokens = 1_000\nmax_workers = 3\n", True),
        ("[limits]\nmax_daily_usd = 1.50 # a day\n[backend]\nname = 'claude'\n", True),
        ("limits = {max_wave_tokens = 7}\n", False),
        ("limits.max_wave_tokens = 7\n", False),
        ('[limits]\n"max_wave_tokens" = 7\n', False),
        ("[limits]\nmax_wave_tokens = 0x10\n", False),
        ('state_dir = "elsewhere"\n', False),
        ('[backend]\nname = """\n[limits]\nmax_wave_tokens = 9\n"""\n', False),
    ],
)
def test_quick_settings_are_those_of_the_loader_or_none(
    tmp_path: Path, text: str, plain: bool
) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "tidegate.toml").write_text(text)
    assert quick_top(str(tmp_path)) == str(tmp_path)
    environ = {"HOME": str(tmp_path)}
    found = quick_ceilings(str(tmp_path), str(tmp_path), environ)
    assert (found is not None) == plain
    if found is not None:
        limits = load(project=tmp_path, cwd=tmp_path, environ=environ).limits
        kept = {name: getattr(limits, name) for name in CEILINGS}
        assert found == {name: value for name, value in kept.items() if value is not None}


def test_settings_that_are_not_plain_are_loaded(top: Path) -> None:
    (top / "tidegate.toml").write_text("limits.max_wave_tokens = 7\n", encoding="utf-8")
    assert document(top)["budget"]["ceilings"] == {"max_wave_tokens": 7}
    (top / "tidegate.toml").write_text("limits.max_wave_tokens = 'x'\n", encoding="utf-8")
    found = document(top)
    assert found["budget"]["ceilings"] is None
    assert "the ceilings are unknown: " in found["notes"][0]


def test_watch_prints_each_change_until_it_is_interrupted() -> None:
    texts = iter(["one", "one", "two"])
    rounds = iter([None, None])

    def wait() -> None:
        if next(rounds, "end") == "end":
            raise KeyboardInterrupt

    with typed("tidegate status", "status"), contextlib.redirect_stdout(io.StringIO()) as out:
        assert status.watch(lambda: next(texts), wait) == 0
    assert out.getvalue() == "one\n\ntwo\n\n"


@pytest.mark.parametrize(
    "words", [["--watch", "--json"], ["--interval", "nan"], ["--interval", "0"], ["--waves", "-1"]]
)
def test_wrong_flags_are_bad_input(tmp_path: Path, words: list[str]) -> None:
    assert looked(tmp_path, *words).code == 2
