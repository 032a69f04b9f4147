"""People editing a tracker and a machine editing its store at random, and what must come of it.

The expectation is kept apart from the merge: per field, which side wrote what since both agreed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

FIELDS = ("status", "priority", "prompt", "ownsFiles", "x-mine")
GONE = object()

Value = Any
Items = dict[str, dict[str, Any]]


@dataclass
class TwoWriters:
    """Both sides as the writers last left them. The harness puts `file` and `store` where the
    code under test finds them, merges, and gives the outcome back through `check`.
    """

    chance: random.Random
    file: Items = field(default_factory=dict)
    store: Items = field(default_factory=dict)
    human: dict[tuple[str, str], Value] = field(default_factory=dict)
    machine: dict[tuple[str, str], Value] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    agreed: Items = field(default_factory=dict)
    names: int = 0

    def human_edits(self) -> None:
        """One edit of the file."""
        roll = self.chance.random()
        if roll < 0.15 or not self.file:
            self.file[self._new_name("h")] = {"status": "todo", "prompt": self._value()}
        elif roll < 0.22:
            gone = self.chance.choice(sorted(self.file))
            del self.file[gone]
            if gone in self.agreed:
                self.deleted.add(gone)
        else:
            name = self.chance.choice(sorted(self.file))
            self._edit(self.file, self.human, name, may_remove=True)

    def machine_edits(self) -> tuple[str, dict[str, Any]]:
        """One change of the store: (id, fields)."""
        alive = sorted(name for name, item in self.store.items() if item["status"] != "archived")
        if self.chance.random() < 0.15 or not alive:
            name = self._new_name("m")
            self.store[name] = {"status": "todo", "prompt": self._value()}
            return name, dict(self.store[name])
        name = self.chance.choice(alive)
        return name, self._edit(self.store, self.machine, name, may_remove=False)

    def expected(self) -> tuple[Items, set[tuple[str, str]]]:
        """What both sides must be after a merge, but for the conflicts, and those."""
        wanted: Items = {}
        conflicts = set()
        for name in {*self.file, *self.store} - self.deleted:
            if name in self.agreed and name not in self.file:
                continue  # archived: it was deleted, or never came to the file
            if name not in self.file and self.store[name]["status"] == "archived":
                continue
            wanted[name] = {}
            start = self.agreed.get(name) or self.store.get(name) or self.file[name]
            for key in {*start, *self.file.get(name, {}), *self.store.get(name, {})}:
                ours = self.machine.get((name, key), _UNTOUCHED)
                theirs = self.human.get((name, key), _UNTOUCHED)
                if _UNTOUCHED not in (ours, theirs) and ours != theirs and name in self.agreed:
                    conflicts.add((name, key))
                    continue
                value = ours if ours is not _UNTOUCHED else theirs
                value = start.get(key, GONE) if value is _UNTOUCHED else value
                if value is not GONE:
                    wanted[name][key] = value
        return wanted, conflicts

    def check(self, file: Items, store: Items, conflicts: set[tuple[str, str]]) -> None:
        """Compare with what came of it; then people accept the store's value in conflicts."""
        wanted, expected_conflicts = self.expected()
        assert conflicts == expected_conflicts
        assert set(file) == set(wanted)
        for name, item in wanted.items():
            keys = {*item, *file[name], *store[name]} - {key for n, key in conflicts if n == name}
            for key in keys - {"id"}:
                told = (name, key, file[name].get(key, GONE), store[name].get(key, GONE))
                assert told[2] == told[3] == item.get(key, GONE), told
        for name in self.deleted:
            assert store[name]["status"] == "archived"
            assert name not in file
        for name, key in conflicts:
            assert store[name].get(key) == self.machine[(name, key)]
            assert file[name].get(key, GONE) == self.human[(name, key)]
            file[name][key] = store[name][key]
        self.file, self.store = file, store
        self.agreed = {name: dict(item) for name, item in file.items()}
        self.human, self.machine = {}, {}

    def _edit(
        self, side: Items, log: dict[tuple[str, str], Value], name: str, *, may_remove: bool
    ) -> dict[str, Any]:
        key = self.chance.choice(FIELDS)
        if may_remove and self.chance.random() < 0.1 and key not in ("status", "prompt"):
            value: Any = GONE
            side[name].pop(key, None)
        else:
            value = self._value()
            side[name][key] = value
        before = self.agreed.get(name, {}).get(key, GONE)
        if value == before or (value is GONE and before is GONE):
            log.pop((name, key), None)  # back to what was agreed: no edit
        else:
            log[(name, key)] = value
        return {key: value}

    def _new_name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def _value(self) -> Any:
        return self.chance.choice(["todo", "done", "a", "b", ["a.py"], 7, True, None, {"k": 1}])


_UNTOUCHED = object()
