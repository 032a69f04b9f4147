"""`ReadAPI`: reads the files of a state folder.

Never writes. A missing or broken file gives an empty result.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from state_store.documents.errors import InputError
from state_store.documents.files import read_json, read_text

_MAX_AHEAD_S = 120.0  # a later stamp comes from a wrong clock, so it is not fresh
_LEDGER = ("ts", "agent_type", "model", "duration_sec", "tokens_in", "tokens_out")
_LEDGER_COLUMNS = (*_LEDGER, "verdict", "phase", "wave")
_NUMBERS = ("duration_sec", "tokens_in", "tokens_out", "wave")


class ReadAPI:
    """Reads the state folder `state_dir`."""

    def __init__(self, state_dir: str | Path) -> None:
        self.state_dir = Path(state_dir)

    def read_tracker_snapshot(self) -> dict[str, Any]:
        """tracker.json as an object; {} if there is none. A bare list counts as its items."""
        found = self._json("tracker.json")
        if isinstance(found, list):
            return {"version": 1, "items": found}
        return found if isinstance(found, dict) else {}

    def read_orchestrator_status(self) -> dict[str, Any]:
        """orchestrator-status.json: id, role, parent_id, activity, phase, updated_at; or {}."""
        found = self._json("orchestrator-status.json")
        return found if isinstance(found, dict) else {}

    def is_orchestrator_status_fresh(self, threshold_s: float = 300) -> bool:
        """True if the status was written within the last `threshold_s` seconds."""
        stamp = self.read_orchestrator_status().get("updated_at")
        try:
            at = datetime.fromisoformat(stamp) if isinstance(stamp, str) else None
        except ValueError:
            return False
        if at is None:
            return False
        return _is_fresh((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp(), threshold_s)

    def check_heartbeat_fresh(self, name: str, threshold_s: float = 200) -> bool:
        """True if the first line of `heartbeats/<name>` is a time within the last `threshold_s`
        seconds."""
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
            return False
        try:
            lines = read_text(self.state_dir / "heartbeats" / name, 2**16).splitlines()
            return _is_fresh(float(lines[0]), threshold_s)
        except (InputError, IndexError, ValueError):
            return False

    def read_ledger_rows(self) -> list[dict[str, Any]]:
        """The rows of ledger/OUTCOMES-LEDGER.md by column. An invalid number is None."""
        try:
            text = read_text(self.state_dir / "ledger" / "OUTCOMES-LEDGER.md")
        except InputError:
            return []
        rows = []
        for line in text.splitlines():
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if len(cells) >= len(_LEDGER) and re.match(r"\d{4}-\d\d-\d\dT", cells[0]):
                row: dict[str, Any] = dict.fromkeys(_LEDGER_COLUMNS)
                row |= dict(zip(_LEDGER_COLUMNS, cells, strict=False))
                rows.append(row | {key: _number(row[key]) for key in _NUMBERS})
        return rows

    def _json(self, name: str) -> Any:
        try:
            return read_json(self.state_dir / name)
        except InputError:
            return None


def _is_fresh(at: float, threshold_s: float) -> bool:
    return -_MAX_AHEAD_S <= time.time() - at <= threshold_s


def _number(text: str | None) -> int | float | None:
    """The number in a cell; None for a text or an empty cell."""
    for kind in (int, float):
        try:
            return kind(text or "")
        except ValueError:
            continue
    return None
