"""Converts agent transcripts of other harnesses (`**/tasks/*.output`) to the use of each agent.

Reads JSON Lines whose messages have model and usage. Any other file counts as empty.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from state_store.documents.files import BadFileError, read_text
from state_store.documents.strict_json import parse_foreign
from state_store.values.lazy_dataclass import dataclass, field
from tools.ledger.rows import STAMP, time_of
from tools.settings.load import process_environment

VARIABLE = "AESOP_TEMP_ROOT"
_IN = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


@dataclass
class AgentUse:
    """The use of an agent. `stamp` and `model` are those of its last message, `file` is the first
    transcript that it is in."""

    agent: str
    file: str
    stamp: str
    model: str = "-"
    messages: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def tokens(self) -> tuple[int, int]:
        """Tokens in, with those of the cache, and out."""
        entered, left = (sum(pair[n] for pair in self.messages.values()) for n in (0, 1))
        return entered, left


@dataclass
class Transcripts:
    """The agents of all transcripts below a folder. `skipped` lines are JSON, but no object."""

    agents: dict[str, AgentUse] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    skipped: int = 0

    def add(self, record: dict[str, Any], file: str, number: int, stamp: str) -> None:
        """Add a message. It is written several times while it grows; the last copy has all."""
        message = record["message"]
        written = str(message.get("id") or f"{file}#{number}")
        name = str(record.get("agentId") or record.get("uuid") or file)
        name = self.owners.setdefault(written, name)
        one = self.agents.setdefault(name, AgentUse(name, file, stamp))
        usage = message["usage"]
        entered = sum(_count(usage.get(key)) for key in _IN)
        one.messages[written] = (entered, _count(usage.get("output_tokens")))
        one.model = _printable(message.get("model")) or one.model
        one.stamp = _stamp(record.get("timestamp")) or stamp


def root(named: str | Path | None) -> Path:
    """The folder to search: `named`, from the environment, or the usual one."""
    found = named or process_environment().get(VARIABLE)
    return Path(found) if found else Path(tempfile.gettempdir()) / "claude"


def below(folder: Path) -> Transcripts:
    """Read all transcripts below a folder. Skips unreadable transcripts."""
    found = Transcripts()
    for path in sorted(folder.glob("**/tasks/*.output")):
        try:
            text = read_text(path)
            at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        except (BadFileError, OSError):
            continue
        name, stamp = path.relative_to(folder).as_posix(), at.strftime(STAMP)
        for number, record in enumerate(_records(text, found)):
            found.add(record, name, number, stamp)
    return found


def _records(text: str, found: Transcripts) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            record = parse_foreign(line)
        except ValueError:
            continue
        if not isinstance(record, dict):
            found.skipped += 1
            continue
        message = record.get("message")
        if isinstance(message, dict) and isinstance(message.get("usage"), dict):
            yield record


def _stamp(value: Any) -> str:
    """The message's time in the ledger's format; "" if it has none."""
    try:
        return time_of(value).astimezone(UTC).strftime(STAMP)
    except (TypeError, ValueError, OverflowError):
        return ""


def _printable(value: Any) -> str:
    """The name of a model, as a cell of the ledger can hold it."""
    text = value if isinstance(value, str) else ""
    return "".join(c for c in text if c.isprintable() and c != "|").strip()


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
