"""A person works on the tracker file while a wave claims, builds and notes its items."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from driver.backlog.retry_policy import RetryPolicy
from driver.backlog.selection import Selection
from driver.run_state.leases import LeaseManager
from driver.scheduler.backlog import Backlog
from driver.scheduler.report import WaveResults
from driver.scheduler.tracker_update import Terms, edits_for
from state_store.api import StateAPI
from state_store.database.events import TRACKER
from state_store.database.store import EventStore

pytestmark = pytest.mark.in_walls

OURS = ("status", "notes", "attempts", "lastError", "nextAttemptAt", "shipped")
TERMS = Terms("0123456789", {}, RetryPolicy(3, 60, 3600), datetime(2026, 1, 31, tzinfo=UTC))
OUTCOMES = ("shipped", "failed", "undecided", "halted")
# In a person's own spelling, which no program of ours may touch.
ODD = '{"id":   "odd" , "rate": 1.50, "big": 1e5, "mine":[1,2 , 3], "name": "J\\u00fcrgen"}'


class Watched(EventStore):
    """A store that lets somebody in between a sync's look at the file and its swap."""

    def items(self, stream: str = TRACKER) -> list[dict[str, Any]]:
        found = super().items(stream)
        self.let_in()
        return found

    let_in: Callable[[], object]


@dataclass
class Person:
    """Someone with an editor; what they wrote last is kept apart from all code under test."""

    chance: random.Random
    path: Path
    titles: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    indent: int | None = 1
    bare: bool = False
    end: str = "\n"
    edits: int = 0

    def start(self, ids: Sequence[str]) -> None:
        self.titles = {name: f"first {name}" for name in ids}
        items = [{"id": n, "slug": n, "status": "todo", "title": self.titles[n]} for n in ids]
        self._write([*items, {"id": "odd"}])

    def may_edit(self) -> None:
        if self.chance.random() < 0.4:
            self.edit()

    def edit(self) -> None:
        """One edit: read the file, change it, save it whole."""
        self.edits += 1
        document = json.loads(self.path.read_text(encoding="utf-8"))
        items = document if isinstance(document, list) else document["items"]
        name = self.chance.choice(sorted(self.titles))
        match self.chance.choice(("retitle", "retitle", "add", "remove", "reformat", "reorder")):
            case "retitle":
                self.titles[name] = f"title {self.edits}"
                next(i for i in items if i["id"] == name)["title"] = self.titles[name]
            case "add":
                fresh = f"new-{self.edits}"
                self.titles[fresh] = fresh
                at = self.chance.randrange(len(items) + 1)
                items.insert(at, {"title": fresh, "id": fresh, "status": "proposed"})
            case "remove" if len(self.titles) > 1:
                del self.titles[name]
                self.removed.add(name)
                items = [item for item in items if item["id"] != name]
            case "reformat":
                self.indent = self.chance.choice((None, 0, 1, 2, 4))
                self.bare = self.chance.random() < 0.5
                self.end = self.chance.choice(("", "\n", "\n\n"))
            case "reorder":
                self.chance.shuffle(items)
        self._write(items)

    def _write(self, items: list[dict[str, Any]]) -> None:
        document = items if self.bare else {"mine": {"rate": 1}, "version": 1, "items": items}
        odd = next(item for item in items if item["id"] == "odd")
        text = json.dumps(document, indent=self.indent)
        spelled = json.dumps(odd, indent=self.indent)
        depth = " " * (self.indent or 0) * (1 if self.bare else 2)
        spelled = spelled.replace("\n", f"\n{depth}")
        assert spelled in text
        self.path.write_text(text.replace(spelled, ODD) + self.end, encoding="utf-8")

    def check(self, text: str) -> None:
        document = json.loads(text)
        assert isinstance(document, list) is self.bare
        assert self.bare or document["mine"] == {"rate": 1}
        assert ODD in text
        assert text.endswith(("]" if self.bare else "}") + self.end)
        assert "\n" in text.rstrip() or self.indent is None
        items = document if self.bare else document["items"]
        kept = {i["id"]: i["title"] for i in items if i["id"] != "odd"}
        assert kept == self.titles
        if self.indent:
            lines = text.splitlines()
            step = " " * self.indent * (1 if self.bare else 2)
            assert all(line.startswith(step) for line in lines if '"title"' in line)


def run_a_wave(folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    person = Person(chance, folder / f"{seed}.json")
    ids = [f"T{n}" for n in range(chance.randint(1, 5))]
    person.start(ids)
    outcomes = {name: chance.choice(OUTCOMES) for name in ids}
    with Watched(folder / f"state-{seed}" / "a.db") as store:
        store.let_in = lambda: None
        api = cast("StateAPI", SimpleNamespace(store=store))
        with LeaseManager(store, 60) as leases:
            backlog = Backlog(api, leases, person.path)
            backlog.sync()
            store.let_in = person.may_edit
            leases.take_all(ids)
            with backlog.claimed({name: name for name in ids}):
                for _ in range(chance.randrange(4)):
                    person.edit()
            edits = edits_for(_results(ids, outcomes), TERMS)
            backlog.write({name: (name, edit) for name, edit in edits.items()})
            person.may_edit()
            assert backlog.sync() == {}
            store.let_in = lambda: None
            assert backlog.sync() == {}
        text = person.path.read_text(encoding="utf-8")
        person.check(text)
        _check_ours(text, store, ids, outcomes, person)


def _results(ids: Sequence[str], outcomes: dict[str, str]) -> WaveResults:
    built = [
        {"slug": n, "dispatched": True, "verdict": outcomes[n], "error": f"why {n}"} for n in ids
    ]
    told = {"built": built, "shipped": [n for n in ids if outcomes[n] == "shipped"]}
    return WaveResults.of(told, Selection(tuple({"id": n, "slug": n} for n in ids), ()))


def _check_ours(
    text: str, store: EventStore, ids: Sequence[str], outcomes: dict[str, str], person: Person
) -> None:
    document = json.loads(text)
    items = document if isinstance(document, list) else document["items"]
    file = {item["id"]: item for item in items}
    for name in ids:
        if name in person.removed:
            assert name not in file
            assert (store.item(name) or {})["status"] == "archived"
            continue
        item = file[name]
        assert item == store.item(name)
        done = outcomes[name] == "shipped"
        assert item["status"] == ("in_progress" if done else "todo")
        assert item.get("notes") == ("[wave 01234567]" if done else None)
        assert item.get("lastError") == (None if done else f"why {name}")
        assert item.get("attempts", 0) == (outcomes[name] == "failed")


def test_both_sides_changes_survive_whatever_a_person_does_meanwhile(tmp_path: Path) -> None:
    for seed in range(3):
        run_a_wave(tmp_path, seed)


@pytest.mark.more
def test_both_sides_changes_survive_whatever_a_person_does_meanwhile_more(tmp_path: Path) -> None:
    for seed in range(3, 40):
        run_a_wave(tmp_path, seed)


@pytest.mark.sweep
def test_both_sides_changes_survive_whatever_a_person_does_meanwhile_sweep(tmp_path: Path) -> None:
    for seed in range(1000, 2000):
        run_a_wave(tmp_path, seed)
