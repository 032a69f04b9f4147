"""A line of plain text that says what a wave waits for."""

from __future__ import annotations

from driver.live.board import BAD, GOOD, QUIET, Board, interesting
from driver.live.wave_view import WaveView
from driver.run_state.context import Wave

_MOST_NAMED = 5


def heartbeat_of(wave: Wave) -> str:
    """The line for a wave of this process."""
    return heartbeat(WaveView(wave).board())


def heartbeat(found: Board) -> str:
    """The line: the running items with phase, time and silence, and the sums."""
    busy = [row for row in interesting(found.rows) if row.tone not in (BAD, GOOD, QUIET)]
    named = []
    for row in busy[:_MOST_NAMED]:
        silent = f", silent for {row.silent}" if row.silent else ""
        elapsed = f" {row.elapsed}" if row.elapsed else ""
        named.append(f"{row.name} ({row.phase}{elapsed}{silent})")
    more = f" and {len(busy) - _MOST_NAMED} more" if len(busy) > _MOST_NAMED else ""
    parts = [f"waiting for {', '.join(named)}{more}"] if named else []
    return "; ".join([*found.notes, *parts, ", ".join(found.totals)])
