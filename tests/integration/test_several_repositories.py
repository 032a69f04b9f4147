"""Items of several repositories in one wave: each is shipped by itself, whatever others do."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from driver.wave_scheduler import run_wave_scheduler
from state_store.database.store import EventStore
from tests.support.interpreter import PYTHON
from tests.support.repos import Checkout, hook, make_bare, make_repo
from tests.support.waves import Scene, ScriptedDriver, writes

CONFIG = '[review]\nmode = "off"\n[verify]\ncanary = false\nred_first = "off"\n'
FILES = {"a.txt": "base\n", "b.txt": "base\n", "keep.txt": "base\n"}


def reads(*wanted: str) -> list[str]:
    """A test that each of `name=text` is what the file holds."""
    code = "import sys; sys.exit(any(open(n).read() != t + chr(10) for n, t in %r))"
    return [*PYTHON, "-c", code % [tuple(one.split("=")) for one in wanted]]


class Town:
    """Three repositories, each with a remote, and one tracker."""

    def __init__(self, folder: Path, more: str = "") -> None:
        self.scene = Scene(folder, FILES, config=CONFIG + more)
        self.places = {n: self._place(folder / n) for n in ("rejecting", "dirty", "clashing")}
        self.tracker = folder / "tracker.json"
        hook(self.remote("rejecting").path / "hooks", "pre-receive", "echo not today; exit 1")
        self.dirt = {"keep.txt": "my own work\n", "new.txt": "untracked\n"}
        self.places["dirty"].write(self.dirt)

    def _place(self, folder: Path) -> Checkout:
        made = make_repo(folder, self.scene.environ, FILES)
        remote = make_bare(folder.with_suffix(".git"), self.scene.environ)
        made.git("remote", "add", "origin", str(remote.path))
        made.git("push", "-q", "-u", "origin", "main")
        return made

    def remote(self, name: str) -> Checkout:
        return Checkout(self.places[name].path.with_suffix(".git"), self.scene.environ)

    def item(self, slug: str, place: str, owns: str, test: list[str]) -> dict[str, Any]:
        return {
            "id": slug.upper(),
            "slug": slug,
            "status": "todo",
            "ownsFiles": [owns],
            "prompt": f"Do {slug}.",
            "testCmd": test,
            "repo": str(self.places[place].path),
        }

    def run(self, scripts: Mapping[str, Any], *items: Mapping[str, Any]) -> dict[str, Any]:
        self.tracker.write_text(json.dumps({"version": 1, "items": items}), encoding="utf-8")
        driver = ScriptedDriver(scripts, environ=self.scene.environ)
        return run_wave_scheduler(
            self.tracker, 9, driver=driver, state_dir=self.scene.state,
            options=self.scene.options(repo=None),
        )  # fmt: skip

    def tracked(self) -> dict[str, dict[str, Any]]:
        items = json.loads(self.tracker.read_text(encoding="utf-8"))["items"]
        return {item["id"]: item for item in items}

    def wave_commits(self, name: str) -> list[str]:
        refs = self.remote(name).git("for-each-ref", "--format=%(refname)", "refs/heads/wave")
        shown = "--format=%(trailers:key=Item-Slug,valueonly,separator=)"
        logs = (self.remote(name).git("log", shown, f"main..{ref}") for ref in refs.split())
        return [slug for log in logs for slug in log.split()]


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> tuple[Town, dict[str, Any]]:
    """One wave of all three: `one` cannot be pushed, `two` is built beside somebody's own work,
    `three` and `four` are each green and red together."""
    town = Town(tmp_path_factory.mktemp("town"))
    report = town.run(
        {
            "one": writes(a__txt="good\n"),
            "two": writes(a__txt="good\n"),
            "three": writes(a__txt="good\n"),
            "four": writes(b__txt="good\n"),
        },
        town.item("one", "rejecting", "a.txt", reads("a.txt=good")),
        town.item("two", "dirty", "a.txt", reads("a.txt=good", "keep.txt=base")),
        town.item("three", "clashing", "a.txt", reads("a.txt=good")),
        town.item("four", "clashing", "b.txt", reads("b.txt=good", "a.txt=base")),
    )
    return town, report


@pytest.mark.more
def test_one_repository_that_fails_leaves_the_others_alone(
    town: tuple[Town, dict[str, Any]],
) -> None:
    place, report = town
    assert (report["exit_code"], report["success"]) == (1, False)
    assert [one["slug"] for one in report["items_shipped"]] == ["two", "three"]
    assert place.wave_commits("rejecting") == []
    assert place.wave_commits("dirty") == ["two"]
    assert place.wave_commits("clashing") == ["three"]


def test_the_report_tells_each_repository_by_itself(town: tuple[Town, dict[str, Any]]) -> None:
    place, report = town
    told = {Path(one["repo"]).name: one for one in report["wave"]["shipped_repos"]}
    assert {name: one["error"] for name, one in told.items()} == {
        "rejecting": "git_push_failed",
        "dirty": None,
        "clashing": None,
    }
    assert "not today" in told["rejecting"]["error_detail"]
    for name in ("dirty", "clashing"):
        assert place.remote(name).git("rev-parse", told[name]["branch"]) == told[name]["sha"]
    kept = told["rejecting"]
    assert place.places["rejecting"].git("rev-parse", kept["branch"]) == kept["sha"]
    bases = {Path(one["repo"]).name: one["commit"] for one in report["wave"]["base"]}
    assert bases == {n: c.git("rev-parse", "main") for n, c in place.places.items()}
    # Of several repositories none is the one.
    assert (report.get("branch"), report.get("sha")) == (None, None)


def test_the_tracker_tells_each_item_by_itself(town: tuple[Town, dict[str, Any]]) -> None:
    place, _ = town
    now = place.tracked()
    statuses = {name: item["status"] for name, item in now.items()}
    assert statuses == {
        "ONE": "todo",
        "TWO": "in_progress",
        "THREE": "in_progress",
        "FOUR": "todo",
    }
    assert "not today" in now["ONE"]["lastError"]
    assert now["FOUR"]["lastError"]
    assert (now["ONE"].get("attempts"), now["FOUR"]["attempts"]) == (0, 1)


def test_somebodys_own_work_beside_it_is_neither_shipped_nor_touched(
    town: tuple[Town, dict[str, Any]],
) -> None:
    place, _ = town
    dirty = place.places["dirty"]
    assert {name: (dirty.path / name).read_text() for name in place.dirt} == place.dirt
    assert dirty.git("status", "--porcelain").split("\n") == ["M keep.txt", "?? new.txt"]


def test_each_item_is_held_in_its_own_repository_and_let_go(
    town: tuple[Town, dict[str, Any]],
) -> None:
    place, _ = town
    with EventStore(place.scene.state / "tracker_events.db") as store:
        asked = {
            event["payload"]["resource"]
            for event in store.read("claims")
            if event["type"] == "claim_requested"
        }
        rows = [store.lease_row(resource) for resource in asked]
    assert [row.holder for row in rows if row] == [None] * 4
    assert asked == {
        f"{place.places[name].path}#{slug}"
        for name, slug in (
            ("rejecting", "one"),
            ("dirty", "two"),
            ("clashing", "three"),
            ("clashing", "four"),
        )
    }


@pytest.mark.more
def test_a_repository_that_cannot_be_opened_stays_out_and_the_others_ship(tmp_path: Path) -> None:
    town = Town(tmp_path, '[ship]\nremote = "origin"\n')
    unborn = tmp_path / "unborn"
    unborn.mkdir()
    Checkout(unborn, town.scene.environ).git("init", "-q")
    town.places["clashing"].git("remote", "rename", "origin", "elsewhere")
    items = [
        town.item("two", "dirty", "a.txt", reads("a.txt=good")),
        town.item("three", "clashing", "a.txt", reads("a.txt=good")),
        town.item("gone", "rejecting", "a.txt", reads("a.txt=good")) | {"repo": "/no/such"},
        town.item("new", "rejecting", "a.txt", reads("a.txt=good")) | {"repo": str(unborn)},
    ]
    report = town.run({"two": writes(a__txt="good\n")}, *items)
    assert [one["slug"] for one in report["items_shipped"]] == ["two"]
    skipped = {one["id"]: one["reason"] for one in report["items_skipped"]}
    assert skipped == dict.fromkeys(["THREE", "GONE", "NEW"], "invalid_repo_path")


@pytest.mark.more
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="gives a folder away")
def test_a_repository_of_somebody_else_stays_out_too(tmp_path: Path) -> None:
    town = Town(tmp_path)
    for path in (town.places["clashing"].path, town.places["clashing"].path / ".git"):
        os.chown(path, 12345, -1)
    items = [
        town.item("two", "dirty", "a.txt", reads("a.txt=good")),
        town.item("three", "clashing", "a.txt", reads("a.txt=good")),
    ]
    report = town.run({"two": writes(a__txt="good\n")}, *items)
    assert [one["slug"] for one in report["items_shipped"]] == ["two"]
    [left_out] = report["items_skipped"]
    assert (left_out["id"], "safe.directory" in left_out["detail"]) == ("THREE", True)
