"""The journal's facts: the few fields that a cycle needs of all entries, also of 5,000 past waves.

A file is read again only if it changed. What was read is kept in the state folder for the next
cycle; without that file, or with a damaged one, the entries are read.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from state_store.documents.errors import CannotRunError, TidegateError
from state_store.documents.files import (
    Identity,
    identity_at,
    identity_of,
    is_at_rest,
    read_bytes,
    write_bytes_atomic,
)
from state_store.documents.journal import (
    FOLDER,
    TOGETHER,
    Key,
    entries_about,
    is_entry,
    read_entries,
    written,
)
from state_store.documents.strict_json import parse_foreign
from state_store.values.lazy_dataclass import dataclass

FILE_NAME = "journal_facts.json"
_FACTS = (
    *("slug", "repo", "phase", "timestamp", "verified", "waveId", "anchor"),
    *("shipped", "commit", "tip", "branch", "target"),
)
_LAYOUT = 1
_MANY_NEW = 100  # a file read again costs less than to write the facts of all

Entry = dict[str, Any]
_Files = dict[str, tuple[Identity, list[Entry]]]
_Listed = list[tuple[str, Identity]]


@dataclass(frozen=True, slots=True)
class JournalFacts:
    """The facts of the latest entries by (repo or None, slug), the names of the files in `folder`
    that have these entries, the invalid files, and the lists of entries by file that an earlier
    version wrote."""

    folder: Path
    latest: Mapping[Key, Entry]
    names: Mapping[Key, str]
    unreadable: tuple[Path, ...]
    lists: Mapping[Path, list[Entry]]

    def about(self, slug: str, repo: str | None, path: str | None) -> list[Entry]:
        """The whole entries of an item, the latest first, as `entries_about` finds them."""
        found = []
        for fact in entries_about(self.latest, slug, repo, path):
            key = (fact.get("repo"), slug)
            held = read_entries(self.folder / self.names[key])
            mine = [entry for entry in held if (entry.get("repo"), entry["slug"]) == key]
            found += sorted(mine, key=_time)[-1:]
        return sorted(found, key=_time, reverse=True)


def journal_facts(
    state_dir: Path, *, now_ns: int | None = None, only_replaced: bool = False
) -> JournalFacts:
    """The facts of a journal as it is now. Writes nothing. Raises CannotRunError if the folder
    exists but cannot be listed.

    Every file is asked for its identity each time, so a file that an agent wrote in place is read
    again, whatever times it set. With `only_replaced` a file that this process has asked is asked
    again only if it is another one now, or was written by this process: that tells every change of
    ours, which replace files. It is for who reads the journal beside a store that has the same.
    `now_ns` is the time.
    """
    folder, now, last = state_dir / FOLDER, now_ns or time.time_ns(), _last.get(state_dir)
    place = identity_at(folder)
    if last and only_replaced and place and last[0] == place:
        return last[2]
    listed = _listed(folder, dict(last[1]) if last and only_replaced else {})
    if not (place and is_at_rest(place, now)):
        place = ()  # a file may come or go without a trace in its times
    files = _remembered(state_dir)
    found = last[2] if last and last[1] == listed else _facts(state_dir, listed, now)
    _last.pop(state_dir, None)
    if all(name in files and files[name][0] == identity for name, identity in listed):
        _last[state_dir] = place, listed, found
    return found


def _facts(state_dir: Path, listed: _Listed, now: int) -> JournalFacts:
    folder, files = state_dir / FOLDER, _remembered(state_dir)
    latest: dict[Key, Entry] = {}
    names: dict[Key, str] = {}
    unreadable: list[Path] = []
    lists: dict[Path, list[Entry]] = {}
    for name, identity in listed:
        known = files.get(name)
        found = (
            known[1]
            if known and known[0] == identity
            else _read(folder / name, identity, files, now)
        )
        if not found:
            unreadable.append(folder / name)
        elif name.startswith(TOGETHER):
            lists[folder / name] = found
        for entry in found:
            key = (entry.get("repo"), entry["slug"])
            if key not in latest or latest[key]["timestamp"] <= entry["timestamp"]:
                latest[key], names[key] = entry, name
    return JournalFacts(folder, latest, names, tuple(unreadable), lists)


def ask_again(state_dir: Path) -> None:
    """Make the next `journal_facts` look at every file, also at those that it has seen before."""
    _last.pop(state_dir, None)


def keep_facts(state_dir: Path) -> None:
    """Write what this process has read of the journal for the next one, if it read much. A folder
    that cannot be written keeps nothing."""
    files = _remembered(state_dir)
    if len(files) < _kept_counts.get(state_dir, 0) + _MANY_NEW:
        return
    known = {name: identity for name, (identity, _) in files.items()}
    there = {name for name, _ in _listed(state_dir / FOLDER, known)}
    kept = {name: files[name] for name in sorted(there & files.keys())}
    body = json.dumps({"layout": _LAYOUT, "files": kept}).encode()
    with suppress(CannotRunError, OSError):
        seal = hashlib.sha256(body).hexdigest().encode()
        write_bytes_atomic(state_dir / FILE_NAME, seal + b"\n" + body)
        _kept_counts[state_dir] = len(files)


_files: dict[Path, _Files] = {}
_last: dict[Path, tuple[Identity, _Listed, JournalFacts]] = {}
_kept_counts: dict[Path, int] = {}


def _remembered(state_dir: Path) -> _Files:
    """The facts by file name that this process or an earlier one has read."""
    if state_dir not in _files:
        _files[state_dir] = _kept(state_dir)
        _kept_counts[state_dir] = len(_files[state_dir])
    return _files[state_dir]


def _kept(state_dir: Path) -> _Files:
    try:
        seal, _, body = read_bytes(state_dir / FILE_NAME).partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != seal:
            return {}
        document = parse_foreign(body)
        if document["layout"] != _LAYOUT:
            return {}
        found = {name: (tuple(seen), facts) for name, (seen, facts) in document["files"].items()}
        return found if all(is_entry(e) for _, facts in found.values() for e in facts) else {}
    except (TidegateError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def _read(path: Path, identity: Identity, files: _Files, now: int) -> list[Entry]:
    """The facts of a file, remembered if it did not change while it was read."""
    whole = read_entries(path)
    found = [{key: entry[key] for key in _FACTS if key in entry} for entry in whole]
    with suppress(OSError):
        if is_at_rest(identity, now) and identity_of(path.stat()) == identity:
            files[path.name] = identity, found
    return found


def _listed(folder: Path, known: Mapping[str, Identity]) -> _Listed:
    """The names and identities of the files of a journal, in order. A file that is `known` and was
    not replaced keeps its identity, which takes a fifth of the time."""
    found: _Listed = []
    try:
        with os.scandir(folder) as listing:
            for one in listing:
                if one.name.endswith(".json"):
                    identity = known.get(one.name, ())
                    if identity and identity[1] == one.inode() and one.name not in written:
                        found.append((one.name, identity))
                        continue
                    try:
                        found.append((one.name, identity_of(one.stat())))
                    except OSError:  # a link to nothing, which reading tells
                        found.append((one.name, ()))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise CannotRunError(f"{folder} cannot be read: {error.strerror or error}") from error
    return sorted(found)


def _time(entry: Mapping[str, Any]) -> float:
    return float(entry["timestamp"])
