"""The ledger's rows as plain data: one by one, and summed up. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tools.ledger_rows import Row

KINDS = ("verdict", "phase", "model", "wave")


def as_dict(row: Row) -> dict[str, Any]:
    """A row by column; what nobody knows is 0 here, as programs of the source expect it."""
    return {
        "timestamp": row.stamp,
        "agent_type": row.agent_type,
        "model": row.model,
        "duration_sec": row.seconds,
        "tokens_in": row.tokens_in or 0,
        "tokens_out": row.tokens_out or 0,
        "verdict": row.verdict,
        "phase": row.phase,
        "wave": wave_of(row.wave),
    }


def wave_of(cell: str) -> int | str | None:
    """A wave's number, or its name where it has one, None where there is none."""
    if cell in ("", "-"):
        return None
    return int(cell) if cell.isdecimal() else cell


def summed(rows: Sequence[Row]) -> dict[str, Any]:
    """All rows, and by verdict, phase, model and wave; `unmetered` are those of unknown use."""
    found: dict[str, Any] = {
        "rows": len(rows),
        "tokens_in": sum(row.tokens_in or 0 for row in rows),
        "tokens_out": sum(row.tokens_out or 0 for row in rows),
        "tokens": sum(row.tokens for row in rows),
        "unmetered": sum(row.tokens_out is None for row in rows),
    }
    return found | {f"by_{kind}": _by(kind, rows) for kind in KINDS}


def as_text(found: dict[str, Any]) -> str:
    """What `summed` gives, for people."""
    lines = [f"{_rows(found)}, {found['tokens']} tokens, {found['unmetered']} unmetered"]
    for kind in KINDS:
        for name, sums in found[f"by_{kind}"].items():
            lines.append(f"{kind} {name}: {_rows(sums)}, {sums['tokens']} tokens")
    return "\n".join(lines)


def _rows(sums: dict[str, Any]) -> str:
    return "1 row" if sums["rows"] == 1 else f"{sums['rows']} rows"


def _by(kind: str, rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    sums: dict[str, dict[str, int]] = {}
    for row in rows:
        one = sums.setdefault(getattr(row, kind) or "-", {"rows": 0, "tokens": 0})
        one["rows"] += 1
        one["tokens"] += row.tokens
    return dict(sorted(sums.items()))
