"""The recording of a wave's dispatches: JSON Lines, from which a later wave can be replayed.

Owns the file, its header and appending to it. `recorded` owns the content of a line.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driver.backends.recorded import Key, Recorded
from driver.filesystem.safe_file_access import regular_bytes
from state_store.documents.errors import CannotRunError, InputError
from state_store.documents.strict_json import parse_foreign
from state_store.redaction.installed import redacted_value

FORMAT = "tidegate-recording"
VERSION = 1


class RecordingWriter:
    """Appends dispatches to a recording. Thread safe."""

    def __init__(self, path: Path) -> None:
        """Create the file, or append to a valid recording.

        Raises InputError if the file is not a valid recording, CannotRunError if it is not
        writable.
        """
        self._path = path
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            existing = regular_bytes(path) if path.exists() else b""
        except OSError as error:
            raise CannotRunError(f"cannot use {path} as a recording: {error}") from error
        if existing:
            _check_header(path, _lines(path, existing))
        else:
            self._append({"format": FORMAT, "version": VERSION})

    @property
    def path(self) -> Path:
        """The path of the recording."""
        return self._path

    def write(self, entry: Recorded) -> None:
        """Append one dispatch. Raises CannotRunError if the write fails."""
        self._append(entry.to_json())

    def _append(self, record: Mapping[str, Any]) -> None:
        line = json.dumps(redacted_value(record), allow_nan=False).encode("ascii") + b"\n"
        try:
            with self._lock, self._path.open("ab") as file:
                file.write(line)
        except OSError as error:
            raise CannotRunError(f"cannot write the recording {self._path}: {error}") from error


def load_recording(path: Path) -> dict[Key, Recorded]:
    """All dispatches of a recording. The later of two with the same key counts.

    Raises InputError with every problem as `file:line: ...`.
    """
    try:
        lines = _lines(path, regular_bytes(path))
    except OSError as error:
        raise InputError(f"cannot read the recording {path}: {error}") from error
    _check_header(path, lines)
    entries: dict[Key, Recorded] = {}
    problems: list[str] = []
    for number, line in enumerate(lines[1:], start=2):
        try:
            entry = Recorded.from_json(_decode(line))
        except InputError as error:
            problems.extend(f"{path}:{number}: {problem}" for problem in error.problems)
        else:
            entries[entry.key] = entry
    if problems:
        raise InputError(problems)
    return entries


def _lines(path: Path, content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    if lines.pop():
        number = len(lines) + 1
        raise InputError(f"{path}:{number}: the line is cut short; delete it to use the rest")
    return lines


def _check_header(path: Path, lines: list[bytes]) -> None:
    try:
        header = _decode(lines[0] if lines else b"")
    except InputError:
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InputError(f"{path}:1: this is not a recording; its first line must name {FORMAT}")
    if header.get("version") != VERSION:
        raise InputError(f"{path}:1: version {header.get('version')!r:.20} is not {VERSION}")


def _decode(line: bytes) -> object:
    try:
        return parse_foreign(line.decode("utf-8"))
    except ValueError as error:
        raise InputError(f"it is not JSON ({error})") from error
