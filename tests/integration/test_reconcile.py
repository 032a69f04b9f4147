"""Stores that ran apart become one: nothing lost, nothing twice, the same from either side."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from state_store.api import StateAPI
from state_store.database.events import ITEM_CREATED, ITEM_UPDATED, TRACKER, Event
from state_store.documents.errors import InputError
from state_store.views.phase import (
    decide_resolution,
    detect_drift,
    read_git_phase,
    read_store_phase,
    resolve_drift,
    write_store_phase,
)
from state_store.views.reconcile import STREAM, identified, merge_events, reconcile_stores
from tools.reconcile import main


def event(uid: str, ts: float) -> Event:
    return Event(uid, ts, "s", "t", {}, "a", 1)


def uids(merged: tuple[Event, ...]) -> str:
    return "".join(found.uid for found in merged)


@pytest.mark.parametrize(
    ("left", "right", "merged"),
    [
        ("", "", ""),
        ("a1 b2", "", "ab"),
        ("a1 c3", "b2 d4", "abcd"),
        ("a1 b2 c3", "a1 b2 d4", "abcd"),
        ("a1 b2 c3", "a1 c3 b2", "abc"),
        ("a9 b1", "c5", "cab"),
        ("a1 c1", "b1 d1", "abcd"),
    ],
)
def test_pasts_merge_by_time_and_keep_each_sides_order(left: str, right: str, merged: str) -> None:
    sides = [[event(it[0], float(it[1:])) for it in side.split()] for side in (left, right)]
    assert uids(merge_events(*sides)) == merged
    assert uids(merge_events(*reversed(sides))) == merged


def forked(folder: Path, seed: int = 0) -> tuple[StateAPI, StateAPI]:
    """Two copies of one store, with a few items in it."""
    first = StateAPI(folder / f"a{seed}" / "tracker_events.db")
    for n in range(3):
        first.append(TRACKER, ITEM_CREATED, {"id": f"i{n}", "status": "todo", "prompt": "p"})
    first.close()
    shutil.copytree(folder / f"a{seed}", folder / f"b{seed}")
    return first, StateAPI(folder / f"b{seed}" / "tracker_events.db")


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[StateAPI, StateAPI]]:
    pair = forked(tmp_path)
    yield pair
    for api in pair:
        api.close()


def items(api: StateAPI) -> dict[str, dict[str, Any]]:
    assert api.store.verify() == ()
    return {item["id"]: item for item in api.store.items()}


def identities(api: StateAPI) -> list[str]:
    streams = sorted(set(api.store.heads()) - {STREAM, "claims"})
    return sorted(found.uid for stream in streams for found in identified(api.store, stream))


def test_each_store_gets_what_only_the_other_has(stores: tuple[StateAPI, StateAPI]) -> None:
    left, right = stores
    left.append(TRACKER, ITEM_UPDATED, {"id": "i0", "status": "done"}, actor="left")
    right.append(TRACKER, ITEM_UPDATED, {"id": "i0", "prompt": "better"}, actor="right")
    right.append(TRACKER, ITEM_CREATED, {"id": "new"})
    right.append("wave:w", "wave_started", {"wave_id": "w"})
    report = reconcile_stores(left, right)
    assert (report.adopted, report.conflicts) == ({TRACKER: 2, "wave:w": 1}, ())
    assert reconcile_stores(right, left).adopted == {TRACKER: 1}
    assert items(left) == items(right)
    assert items(left)["i0"] == {"id": "i0", "status": "done", "prompt": "better"}
    actors = [found["actor"] for found in left.get(TRACKER)]
    assert actors[-2:] == ["right", "system"]


def test_doing_it_again_adopts_nothing(stores: tuple[StateAPI, StateAPI]) -> None:
    left, right = stores
    right.append("s", "t", {})
    reconcile_stores(left, right)
    before = len(left.store.read_all())
    for _ in range(2):
        assert reconcile_stores(left, right).adopted == {}
        assert reconcile_stores(right, left).adopted == {}
    assert len(left.store.read_all()) == before


def test_the_later_change_of_one_field_stands_on_both_sides_and_is_reported(
    stores: tuple[StateAPI, StateAPI],
) -> None:
    left, right = stores
    right.append(TRACKER, ITEM_UPDATED, {"id": "i0", "status": "done"})
    left.append(TRACKER, ITEM_UPDATED, {"id": "i0", "status": "failed"})
    (conflict,) = reconcile_stores(left, right).conflicts
    told = (conflict.item_id, conflict.field, conflict.base, conflict.store, conflict.file)
    assert told == ("i0", "status", "todo", "failed", "done")
    reconcile_stores(right, left)
    assert items(left)["i0"]["status"] == items(right)["i0"]["status"] == "failed"


def test_an_item_that_both_created_is_one_item(stores: tuple[StateAPI, StateAPI]) -> None:
    left, right = stores
    left.append(TRACKER, ITEM_CREATED, {"id": "x", "status": "todo"})
    left.append(TRACKER, ITEM_UPDATED, {"id": "x", "status": "done"})
    right.append(TRACKER, ITEM_CREATED, {"id": "x", "status": "todo", "prompt": "p"})
    reconcile_stores(left, right)
    reconcile_stores(right, left)
    expected = {"id": "x", "status": "done", "prompt": "p"}
    assert items(left)["x"] == items(right)["x"] == expected


def test_leases_stay_with_their_store(stores: tuple[StateAPI, StateAPI]) -> None:
    left, right = stores
    right.append("claims", "claim_requested", {"resource": "r", "instance_id": "i", "ttl": 1})
    assert reconcile_stores(left, right).adopted == {}


def test_a_store_is_not_reconciled_with_itself(stores: tuple[StateAPI, StateAPI]) -> None:
    with StateAPI(stores[0].store.path) as again, pytest.raises(InputError):
        reconcile_stores(stores[0], again)


def run_apart(folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    pair = forked(folder, seed)
    for _ in range(chance.randrange(1, 4)):
        for n in range(chance.randrange(8)):
            api = chance.choice(pair)
            name = f"i{chance.randrange(4)}"
            fields = {chance.choice("pqr"): chance.randrange(4)}
            kind = chance.choice([ITEM_CREATED, ITEM_UPDATED, ITEM_UPDATED, "item_archived"])
            api.append(TRACKER, kind, {"id": name, **(fields if kind != "item_archived" else {})})
            chance.choice(pair).append(f"wave:{chance.randrange(2)}", "t", n)
        if chance.random() < 0.5:
            reconcile_stores(*chance.sample(pair, 2))
    left, right = chance.sample(pair, 2)
    before = {uid for api in pair for uid in identities(api)}
    for _ in range(2):
        reconcile_stores(left, right)
        reconcile_stores(right, left)
    assert identities(left) == identities(right)
    assert len(set(identities(left))) == len(identities(left))
    assert before <= set(identities(left))
    assert items(left) == items(right)
    assert reconcile_stores(left, right).adopted == {}
    for api in pair:
        api.close()


def test_however_two_stores_ran_apart_they_become_the_same(tmp_path: Path) -> None:
    for seed in range(8):
        run_apart(tmp_path, seed)


@pytest.mark.sweep
def test_however_two_stores_ran_apart_they_become_the_same_sweep(tmp_path: Path) -> None:
    for seed in range(1000, 1500):
        run_apart(tmp_path, seed)


# The phase in STATE.md and in the store


@pytest.fixture
def state_md(tmp_path: Path) -> Path:
    path = tmp_path / "STATE.md"
    path.write_text("# State\n\n## Phase: `build`\n\ntext\n")
    return path


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("## Phase: `a b`\n", "a b"),
        ("##  Phase:\t`a b`\n", "a b"),
        ("## Phase: a\n", None),
        ("x ## Phase: `a`", None),
        ("", None),
    ],
)
def test_the_phase_of_git_is_its_heading(tmp_path: Path, text: str, phase: str | None) -> None:
    (tmp_path / "STATE.md").write_text(text)
    assert read_git_phase(tmp_path / "STATE.md") == phase


def test_looking_never_makes_a_database(tmp_path: Path, state_md: Path) -> None:
    db = tmp_path / "state" / "x.db"
    assert read_store_phase(db) is None
    field = {"field": "phase", "authority": "git", "git_value": "build", "store_value": None}
    assert detect_drift(state_md, db) == {
        "drift": True,
        "fields": [{**field, "drift": True, "fix_target": "store"}],
        "git_phase": "build",
        "store_phase": None,
    }
    assert not db.parent.exists()


def test_the_phase_of_the_store_is_the_newest(tmp_path: Path) -> None:
    db = tmp_path / "x.db"
    assert [write_store_phase(db, phase) for phase in ("a", "b")] == [1, 2]
    assert read_store_phase(db) == "b"
    with StateAPI(db) as api:
        assert api.get("meta")[0]["actor"] == "reconcile"
        api.append("orchestrator_status", "phase_changed", {"phase": "c"})
    assert read_store_phase(db) == "c"


@pytest.mark.parametrize(
    ("git", "store", "authority", "decision"),
    [
        ("a", "a", "git", (False, None, "a")),
        (None, None, "store", (False, None, None)),
        ("a", "b", "git", (True, "store", "a")),
        ("a", "b", "store", (True, "git", "b")),
        ("a", None, "git", (True, "store", "a")),
        (None, "b", "git", (True, "store", None)),
    ],
)
def test_the_authority_decides(git: Any, store: Any, authority: str, decision: Any) -> None:
    assert decide_resolution(git, store, authority) == decision


def test_another_authority_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="nobody"):
        decide_resolution("a", "a", "nobody")


@pytest.mark.parametrize(
    ("text", "store", "authority", "action", "after"),
    [
        ("## Phase: `a`\n", "a", "git", "noop", ("a", "a")),
        ("## Phase: `a`\n", "b", "git", "resolved", ("a", "a")),
        ("## Phase: `a`\n", "b", "store", "resolved", ("b", "b")),
        ("## Phase: `a`\n", None, "store", "refused", ("a", None)),
        ("nothing\n", "b", "git", "refused", (None, "b")),
        ("nothing\n", "b", "store", "unsupported", (None, "b")),
        ("## Phase: `a`\n", "b`c", "store", "unsupported", ("a", "b`c")),
    ],
)
def test_drift_is_resolved_towards_the_authority(
    tmp_path: Path, text: str, store: str | None, authority: str, action: str, after: Any
) -> None:
    state_md, db = tmp_path / "STATE.md", tmp_path / "x.db"
    state_md.write_text(text + "rest\n")
    if store:
        write_store_phase(db, store)
    done = resolve_drift(state_md, db, authority)
    field = done["fields"][0]
    assert done["action"] == field["action"] == action
    assert done["drift"] is field["drift"] is (after[0] != after[1])
    assert (field["git_value"], field["store_value"]) == after
    assert ("reason" in field) is (action in ("refused", "unsupported"))
    assert (read_git_phase(state_md), read_store_phase(db)) == after
    assert state_md.read_text().endswith("rest\n")


def test_a_missing_state_md_has_no_phase(tmp_path: Path) -> None:
    assert read_git_phase(tmp_path / "STATE.md") is None
    assert detect_drift(tmp_path / "STATE.md", tmp_path / "x.db")["git_phase"] is None
    write_store_phase(tmp_path / "x.db", "b")
    done = resolve_drift(tmp_path / "STATE.md", tmp_path / "x.db")
    assert (done["action"], done["drift"]) == ("refused", True)
    assert resolve_drift(tmp_path / "STATE.md", tmp_path / "x.db", "store")["action"] == (
        "unsupported"
    )


def test_a_state_md_that_cannot_be_read_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "STATE.md").mkdir()
    with pytest.raises(InputError):
        detect_drift(tmp_path / "STATE.md", tmp_path / "x.db")


def test_the_text_form_says_if_there_is_drift(
    tmp_path: Path, state_md: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--state-md", str(state_md), "--db", str(tmp_path / "x.db")]
    assert main(flags) == 1
    assert capsys.readouterr().out.startswith("DRIFT DETECTED\n")
    assert main([*flags, "--resolve"]) == 0
    assert capsys.readouterr().out.startswith("no drift\n")


def test_a_missing_state_md_is_told_with_the_one_that_runs_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "STATE.md"
    assert main(["--state-md", str(gone), "--state-dir", str(tmp_path / "state")]) == 2
    told = capsys.readouterr().err
    assert f"{gone} does not exist: name yours with --state-md" in told
    assert str(tmp_path / "state" / "STATE.md") in told
