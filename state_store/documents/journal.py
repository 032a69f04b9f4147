"""The journal: a small JSON file per item, from which a wave resumes without the database.

Earlier versions wrote the entries of one shipment as a list into one file, which is still read.
This module owns the file names and the shape of an entry. The reader decides whether an entry still
fits the item it names; the entry carries what that takes (wave, content hash, commit).
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from state_store.documents.errors import CannotRunError
from state_store.documents.files import BadFileError, StagedFile, read_json, write_json_atomic

FOLDER = "journal"
SHIPPING = "shipping"  # the phase of work whose publication has begun but is not confirmed
_MAX_SLUG = 200
_MAX_BASENAME = 20  # keeps a name with slug and both hashes below 255 bytes
_MAX_BYTES = 2**20
_MAX_BYTES_TOGETHER = 2**26
TOGETHER = "together."  # names of single entries have a point only at the end

Key = tuple[str | None, str]
written: set[str] = set()  # the names of the files that this process has written


def safe_slug(slug: str) -> str:
    """`slug` as part of a file name: its letters, digits, `_` and `-`, with a hash if changed.

    Raises ValueError if no character is left.
    """
    kept = _kept(slug, _MAX_SLUG)
    if not kept:
        raise ValueError(f"the slug {slug!r} has no letter or digit to name a file after")
    return kept if kept == slug else f"{kept}-{_hash(slug)}"


def stored_slug(slug: str) -> str:
    """`safe_slug` of a name in a stored record, which may be damaged: with no letter or digit in it
    only the hash."""
    return safe_slug(slug) if _kept(slug, 1) else _hash(slug)


def entry_path(state_dir: Path, slug: str, repo: str | Path | None = None) -> Path:
    """The path of an item's entry. Repositories with the same name have different paths."""
    name = safe_slug(slug)
    if repo is not None:
        where = Path(repo)
        basename = _kept(where.name, _MAX_BASENAME) or "repo"
        name = f"{basename}-{_hash(str(where))}--{name}"
    return state_dir / FOLDER / f"{name}.json"


def write_entry(
    state_dir: Path, slug: str, phase: str, data: Mapping[str, Any], repo: str | Path | None = None
) -> Path:
    """Replace the item's entry, durably, and return its path.

    `data` has `verified`, `testExit`, `repairs`, `instance_id`, `error` and all other facts that
    the resume needs. It cannot change the item of the entry. A `timestamp` in it (seconds since the
    epoch) is kept. Raises CannotRunError if the write fails.
    """
    path = entry_path(state_dir, slug, repo)
    written.add(path.name)
    write_json_atomic(path, entry_of(slug, phase, data, repo))
    return path


def staged_entry(
    state_dir: Path, slug: str, phase: str, data: Mapping[str, Any], repo: str | Path | None = None
) -> StagedFile:
    """Like `write_entry`, but the entry counts only after `swap_in`."""
    path = entry_path(state_dir, slug, repo)
    written.add(path.name)
    return StagedFile.of_json(path, entry_of(slug, phase, data, repo))


def entry_of(
    slug: str, phase: str, data: Mapping[str, Any], repo: str | Path | None = None
) -> dict[str, Any]:
    """The entry that `write_entry` writes."""
    identity = {"slug": slug, "repo": None if repo is None else str(repo), "phase": phase}
    facts = {"timestamp": time.time(), "verified": False, "testExit": None}
    entry = {**identity, **facts, **data, **identity}
    if repo is None:
        del entry["repo"]
    return entry


def load_entries(state_dir: Path) -> tuple[dict[Key, dict[str, Any]], tuple[Path, ...]]:
    """The latest entries by (repo or None, slug), and the invalid files.

    Raises CannotRunError if the folder exists but cannot be listed.
    """
    folder = state_dir / FOLDER
    try:
        names = os.listdir(folder)  # noqa: PTH208 - Path.glob hides that a folder is unreadable
    except FileNotFoundError:
        names = []
    except OSError as error:
        raise CannotRunError(f"{folder} cannot be read: {error.strerror or error}") from error
    entries: dict[Key, dict[str, Any]] = {}
    unreadable: list[Path] = []
    for path in sorted(folder / name for name in names if name.endswith(".json")):
        found = read_entries(path)
        if not found:
            unreadable.append(path)
        for entry in found:
            key = (entry.get("repo"), entry["slug"])
            if key not in entries or entries[key]["timestamp"] <= entry["timestamp"]:
                entries[key] = entry
    return entries, tuple(unreadable)


def entries_about(
    entries: Mapping[Key, dict[str, Any]], slug: str, repo: str | None, path: str | None
) -> list[dict[str, Any]]:
    """An item's entries in a result of `load_entries`, the latest first.

    An item may name its repository in one wave and not in another: `repo` is the name it has now,
    `path` the repository it is built in. An entry without a repository may belong to an item of the
    same slug in another repository.
    """
    names = dict.fromkeys((repo, path, None))
    found = [entries[name, slug] for name in names if (name, slug) in entries]
    return sorted(found, key=lambda entry: float(entry["timestamp"]), reverse=True)


def read_entries(path: Path) -> list[dict[str, Any]]:
    """The entries of a file, [] if it has none or one that is no entry."""
    together = path.name.startswith(TOGETHER)
    try:
        held = read_json(path, _MAX_BYTES_TOGETHER if together else _MAX_BYTES)
    except BadFileError:
        return []
    found = held if isinstance(held, list) and together else [held]
    return found if all(map(is_entry, found)) else []


def is_entry(entry: object) -> bool:
    """True for an object with the fields that every entry has."""
    if not isinstance(entry, dict):
        return False
    stamp = entry.get("timestamp")
    return (
        isinstance(entry.get("slug"), str)
        and isinstance(entry.get("phase"), str)
        and isinstance(entry.get("repo"), str | None)
        and isinstance(entry.get("verified"), bool)
        and isinstance(stamp, int | float)
        and not isinstance(stamp, bool)
    )


def _kept(text: str, limit: int) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "", text)[:limit]


def _hash(text: str) -> str:
    raw = text.encode("utf-8", "surrogatepass")
    return hashlib.sha1(raw, usedforsecurity=False).hexdigest()[:8]
