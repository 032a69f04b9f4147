"""`ReadAPI`: reads the files of a state folder.

Never writes. A missing or broken file gives an empty result.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from state_store.documents import heartbeats
from state_store.documents.errors import InputError
from state_store.documents.files import read_json, read_text

_LEDGER = ("iso_ts", "agent_type", "model", "duration_sec", "tokens_in", "tokens_out")
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

    def read_orchestrator_status(self) -> dict[str, Any] | None:
        """orchestrator-status.json: id, role, parent_id, activity, phase, updated_at; None if there
        is none."""
        found = self._json("orchestrator-status.json")
        return found if isinstance(found, dict) else None

    def is_orchestrator_status_fresh(self, threshold_s: float = 300) -> bool:
        """True if the status is less than `threshold_s` seconds old."""
        path = self.state_dir / "orchestrator-status.json"
        return not heartbeats.status_staleness(path, threshold_s)[0]

    def check_heartbeat_fresh(self, heartbeat_filename: str, threshold_s: float = 200) -> bool:
        """True if the first line of a heartbeat is a time less than `threshold_s` seconds ago.

        The file is in the state folder, as `.watchdog-heartbeat` is, else in `heartbeats`.
        """
        if not heartbeats.is_name(heartbeat_filename):
            return False
        path = heartbeats.path_of(self.state_dir, heartbeat_filename)
        return not heartbeats.heartbeat_staleness(path, threshold_s)[0]

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
                row["phase"] = None if row["phase"] in ("", "-") else row["phase"]
                rows.append(row | {key: _number(row[key]) for key in _NUMBERS})
        return rows

    def _json(self, name: str) -> Any:
        try:
            return read_json(self.state_dir / name)
        except InputError:
            return None


def _number(text: str | None) -> int | float | None:
    """The number in a cell; None for a text or an empty cell."""
    for kind in (int, float):
        try:
            return kind(text or "")
        except ValueError:
            continue
    return None
