"""Converts agent transcripts of other harnesses (`**/tasks/*.output`) to rows of the ledger.

Reads JSON Lines whose messages have model and usage. Any other file counts as empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from state_store.documents.errors import InputError
from state_store.documents.files import BadFileError, read_text
from tools.settings.load import process_environment

VARIABLE = "AESOP_TEMP_ROOT"
_IN = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def root(named: str | Path | None) -> Path:
    """The folder to search: `named`, or from the environment. Raises InputError without both."""
    found = str(named or process_environment().get(VARIABLE) or "")
    if not found:
        raise InputError(f"set {VARIABLE} to the folder that holds the transcripts")
    return Path(found)


def below(folder: Path) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Name and first seven columns of each transcript below a folder, sorted. Skips unreadable
    transcripts."""
    for path in sorted(folder.glob("**/tasks/*.output")):
        try:
            text = read_text(path)
            at = path.stat().st_mtime
        except (BadFileError, OSError):
            continue
        stamp = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        used: dict[str, tuple[int, int]] = {}
        model = "-"
        for number, message in enumerate(_messages(text)):
            usage = message["usage"]
            entered = sum(_count(usage.get(key)) for key in _IN)
            # A message is written several times while it grows. The last copy has the whole use.
            used[str(message.get("id") or number)] = (entered, _count(usage.get("output_tokens")))
            model = str(message.get("model") or model)
        entered, left = (sum(pair[n] for pair in used.values()) for n in (0, 1))
        verdict = "OK" if entered + left else "EMPTY"
        plain = "".join(c for c in model if c.isprintable() and c != "|").strip() or "-"
        cells = (stamp, "agent", plain, 0, entered, left, verdict)
        yield path.relative_to(folder).as_posix(), cells


def _messages(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        message = record.get("message") if isinstance(record, dict) else None
        if isinstance(message, dict) and isinstance(message.get("usage"), dict):
            yield message


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
