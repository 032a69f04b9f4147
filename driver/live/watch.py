"""Watches a wave for people: on a terminal by a live screen, else by plain lines and a heartbeat.

A second thread writes the phases that only it knows of, see `run_state.phase_notes`. The screen is
imported only for a terminal, the heartbeat only when one is due.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from driver.execution.worker_pool import repeating
from driver.run_state.context import Wave
from driver.terminal.color import is_terminal
from driver.terminal.progress import Progress

NOTES_EVERY_S = 1.0
HEARTBEAT_EVERY_S = 30.0


@contextmanager
def watched(wave: Wave) -> Iterator[None]:
    """Show the wave until the block ends."""
    progress, environ = wave.options.progress, wave.settings.environ
    with ExitStack() as shown:
        on_github = environ.get("GITHUB_ACTIONS") == "true"
        if on_github and progress.stream is not None:
            from driver.live.github import grouped  # noqa: PLC0415 - only where it is used

            shown.enter_context(grouped(wave))
        elif wave.options.ask is None and has_screen(progress, environ.get("TERM", "")):
            from driver.live.live_screen import live_screen  # noqa: PLC0415 - as above

            shown.enter_context(live_screen(wave))
        shown.enter_context(repeating(NOTES_EVERY_S, _NoteWriter(wave).look))
        yield


def has_screen(progress: Progress, term: str) -> bool:
    """True if the lines go to a terminal that can be redrawn."""
    return is_terminal(progress.stream) and term not in ("", "dumb") and os.name != "nt"


class _NoteWriter:
    """Writes phase notes, and a heartbeat where no screen shows the wave."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._next = time.monotonic() + HEARTBEAT_EVERY_S

    def look(self) -> None:
        self._wave.recorder.write_notes()
        progress = self._wave.options.progress
        if time.monotonic() < self._next or progress.is_shown or progress.stream is None:
            return
        self._next = time.monotonic() + HEARTBEAT_EVERY_S
        from driver.live.heartbeat import heartbeat_of  # noqa: PLC0415 - as above

        if line := heartbeat_of(self._wave):
            self._wave.recorder.say(line)
