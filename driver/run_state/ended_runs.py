"""The runs that have ended, by the names of their folders, in a file of the state folder.

A state folder may have thousands of past runs, and to look for a note in each takes longer than all
else that a cycle does about them. The file is only a help: without it each folder is looked into.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from state_store.documents.errors import CannotRunError
from state_store.documents.files import (
    BadFileError,
    MissingFileError,
    read_bytes,
    write_bytes_atomic,
)
from state_store.documents.strict_json import parse_foreign

FILE_NAME = "ended_runs.json"
_MANY_NEW = 100  # to look into fewer folders takes less time than to write the names of all


def remembered(state_dir: Path) -> Collection[str]:
    """The names of folders that have no note; none if the file is missing or damaged."""
    with suppress(BadFileError, ValueError):
        seal, _, body = read_bytes(state_dir / FILE_NAME).partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() == seal:
            names = parse_foreign(body)
            return names if isinstance(names, list) else ()
    return ()


def remember(state_dir: Path, record: str) -> None:
    """Write the names of the folders without a `record`, if there are many new ones.

    Another process may note its run in an old folder at any time. It calls `forget` before and
    after, and here the folders are looked into before and after, so one of the two sees the other,
    unless this process is killed between the write and the look after it.
    """
    runs, known = state_dir / "runs", set(remembered(state_dir))
    with suppress(OSError, CannotRunError):
        names = set(os.listdir(runs))  # noqa: PTH208 - faster for thousands
        ended = {name for name in names - known if not os.path.lexists(runs / name / record)}
        if len(ended) < _MANY_NEW:
            return
        ended |= names & known
        body = json.dumps(sorted(ended)).encode()
        seal = hashlib.sha256(body).hexdigest().encode()
        write_bytes_atomic(state_dir / FILE_NAME, seal + b"\n" + body)
        if any(os.path.lexists(runs / name / record) for name in ended):
            (state_dir / FILE_NAME).unlink(missing_ok=True)


def forget(run_dir: Path) -> None:
    """Remove the file if it has the folder of this run. Raises an error if that cannot be done."""
    path = run_dir.parent.parent / FILE_NAME
    with suppress(MissingFileError):
        if json.dumps(run_dir.name).encode() in read_bytes(path):
            path.unlink(missing_ok=True)
