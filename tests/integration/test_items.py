"""`tidegate items`, and other words that change the backlog, with and without a tracker file."""

from __future__ import annotations

import io
import json
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driver import tidegate
from state_store.api import StateAPI
from state_store.place import open_store
from state_store.sql.addresses import keep_rows
from tests.support.postgres import Server
from tests.support.programs import Ran, call, git

OPEN = {"prompt": "Do it.", "testCmd": "true"}


def item(name: str, status: str = "todo", **more: Any) -> dict[str, Any]:
    return {"id": name, "slug": name.lower(), "status": status, "ownsFiles": [name], **OPEN, **more}


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository without a tracker file."""
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "tidegate.toml").write_text('[backend]\nname = "command"\ncommand = ["true"]\n')
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    keep_rows(tmp_path / "state", None)


@pytest.fixture(params=["file", "store", "server"])
def place(request: pytest.FixtureRequest, top: Path) -> Path:
    """The repository with its backlog in a file, in the store of one machine, or on a server."""
    state = top / "state"
    if request.param == "server":
        server: Server = request.getfixturevalue("postgres")
        settings = f'[state]\nurl = "{server.url}"\nschema = "t_{secrets.token_hex(6)}"\n'
        (top / "tidegate.toml").write_text((top / "tidegate.toml").read_text() + settings)
    elif request.param == "store":
        state.mkdir()
        with StateAPI(state / "tracker_events.db") as api:
            api.append("tracker", "item_created", {"id": "OLD", "slug": "old", "status": "done"})
    else:
        state.mkdir()
        (state / "tracker.json").write_text('{"version": 1, "items": []}\n')
    return top


def items_of(top: Path) -> dict[str, dict[str, Any]]:
    """The backlog by id, as `items export` has it."""
    done = call(tidegate.main, "items", "export")
    assert done.code == 0, done.err
    return {one["id"]: one for one in json.loads(done.out)["items"] if one["id"] != "OLD"}


def taken(top: Path, *items: Any, words: tuple[str, ...] = ()) -> Ran:
    (top / "given.json").write_text(json.dumps({"version": 1, "items": list(items)}))
    return call(tidegate.main, "items", "import", "given.json", "--json", *words)


def test_an_export_is_what_an_import_takes(place: Path) -> None:
    wanted = [
        item("A", priority="P1", extra={"x": [1, None, "\u20ac"]}),
        item("B", dependsOn=["A"]),
        {"id": "C", "slug": "c", "status": "archived"},
    ]
    done = taken(place, *wanted)
    assert done.code == 0, done.err
    assert json.loads(done.out)["added"] == ["A", "B", "C"]
    assert list(items_of(place).values()) == wanted
    assert call(tidegate.main, "items", "export", "out.json").code == 0
    dash = call(tidegate.main, "items", "export", "-")
    assert json.loads(dash.out) == json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert not Path("-").exists()
    again = call(tidegate.main, "items", "import", "out.json", "--json")
    assert again.code == 0, again.err
    assert json.loads(again.out)["added"] == json.loads(again.out)["updated"] == []
    other = place / "other"
    other.mkdir()
    words = ("items", "import", "out.json", "--tracker", str(other / "tracker.json"))
    assert call(tidegate.main, *words).code == 0
    found = json.loads((other / "tracker.json").read_text())["items"]
    assert [one for one in found if one["id"] != "OLD"] == wanted


def test_all_items_are_taken_or_none_with_every_problem(place: Path) -> None:
    assert taken(place, item("A")).code == 0
    bad = [
        item("B"),
        item("A", priority="P2"),
        {"id": "C", "status": "todo", "slug": "c"},
        item("D", status="finished"),
        "no object",
        {"slug": "x", "status": "done"},
        item("E", dependsOn=["Z"]),
    ]
    done = taken(place, *bad)
    assert done.code == 2
    told = json.loads(done.out) if done.out else {}
    said = f"{done.err}{told}"
    for words in (
        "entry 2 (A): the item is there with another priority; --update changes it",
        "entry 3 (C): ",
        "entry 4 (D): status must be one of",
        "entry 5: it is not an object",
        "entry 6: it has no id",
    ):
        assert words in said, words
    assert list(items_of(place)) == ["A"]
    twice = taken(place, item("B"), item("B", slug="b2"), item("F", dependsOn=["Z"]))
    assert twice.code == 2
    assert "two items have the id 'B'" in twice.err
    assert "F: no item has the id or slug 'Z'" in twice.err
    closed = taken(place, item("A", prompt="1"), item("A", prompt="2"), words=("--update",))
    assert (closed.code, closed.err.count("two items have the id 'A'")) == (2, 1)
    closed = taken(place, item("G", status="done", dependsOn=5))
    assert (closed.code, "G: no item has the id or slug 5" in closed.err) == (2, True)
    assert list(items_of(place)) == ["A"]


def test_an_update_changes_and_removes_fields(place: Path) -> None:
    assert taken(place, item("A", priority="P1", notes="x"), item("B")).code == 0
    wanted = item("A", status="blocked", priority="P2")
    checked = taken(place, wanted, words=("--update", "--dry-run"))
    assert json.loads(checked.out)["updated"] == ["A"]
    assert items_of(place)["A"]["priority"] == "P1"
    assert taken(place, wanted, words=("--update",)).code == 0
    assert items_of(place) == {"A": wanted, "B": item("B")}


def test_stdin_and_a_bare_list_are_taken(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "given.json").write_text(json.dumps([item("A")]))
    assert call(tidegate.main, "items", "import", "given.json").code == 0
    given = io.BytesIO(json.dumps([item("A"), item("B")]).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(given))
    assert call(tidegate.main, "items", "import", "-").code == 0
    assert list(items_of(place)) == ["A", "B"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert "is not valid JSON" in call(tidegate.main, "items", "import", "-").err


def test_add_plan_status_and_doctor_work_where_there_is_no_file(place: Path) -> None:
    words = ("Round prices", "--owns", "shop/price.py", "--test", "true", "--json")
    done = call(tidegate.main, "add", *words)
    assert done.code == 0, done.err
    (found,) = items_of(place).values()
    assert found["slug"] == "round-prices"
    (place / "issues.json").write_text(
        json.dumps([{"number": 7, "title": "Carts", "body": "", "labels": [], "state": "OPEN"}])
    )
    done = call(tidegate.main, "intake", "github", "issues.json", "--json")
    assert done.code == 0, done.err
    assert len(items_of(place)) == 2
    git(place, "add", "tidegate.toml")
    git(place, "commit", "-q", "-m", "one")
    planned = call(tidegate.main, "plan", "--json")
    assert planned.code == 0, planned.err
    assert "round-prices" in planned.out
    status = json.loads(call(tidegate.main, "status", "--json").out)
    assert status["items"]["counts"]["todo"] == 1
    doctor = json.loads(call(tidegate.main, "doctor", "--json").out)
    (tracker,) = (one for one in doctor["checks"] if one["name"] == "tracker")
    assert tracker["level"] == "ok", tracker


def test_another_machine_sees_an_import_into_a_file_at_once(
    top: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_STATE_URL", postgres.url)
    monkeypatch.setenv("TIDEGATE_STATE_SCHEMA", postgres.new_schema())
    state = top / "state"
    state.mkdir()
    (state / "tracker.json").write_text(json.dumps({"items": [item("A")]}))
    assert taken(top, item("B")).code == 0
    with open_store(state / "tracker_events.db") as store:
        assert [one["id"] for one in store.items()] == ["A", "B"]
    with open_store(state / "tracker_events.db") as store:
        store.append("tracker", "item_updated", {"id": "A", "status": "in_progress"})
    counts = json.loads(call(tidegate.main, "status", "--json").out)["items"]["counts"]
    assert counts == {"in_progress": 1, "todo": 1}, "the file is older than the store"
    done = call(tidegate.main, "items", "export", "--state-dir", "elsewhere")
    assert [one["id"] for one in json.loads(done.out)["items"]] == ["A", "B"]
    keep_rows(top / "elsewhere", None)


def test_a_closed_stdin_is_told(tmp_path: Path) -> None:
    program = Path(__file__).parents[2] / "tools" / "items.py"
    words = f"{sys.executable} {program} import - --state-dir {tmp_path} <&-"
    done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "items: stdin is closed: name a file\n")
