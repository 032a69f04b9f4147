"""The present board of a wave of this process: its events, its agents' output, and its stop."""

from __future__ import annotations

import time
from contextlib import suppress

from driver.live.agent_output import OutputWatch
from driver.live.board import Board, board
from driver.run_state.context import Wave
from driver.terminal.safe_text import without_remedy
from state_store.documents.errors import TidegateError
from state_store.views.wave_progress import WaveProgress, catch_up, read_progress


class WaveView:
    """Reads what is new with each `board`. For one thread."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._output = OutputWatch(wave.run_dir)
        self._progress: WaveProgress | None = None

    @property
    def progress(self) -> WaveProgress:
        """The progress with the newest events. A store that is busy tells nothing new."""
        store = self._wave.recorder.store
        if self._progress is None:
            self._progress = read_progress(store, self._wave.wave_id)
        with suppress(TidegateError):
            catch_up(store, self._progress)
        return self._progress

    def board(self) -> Board:
        """The board at this moment."""
        gates = self._wave.gates
        stopped = gates.stop.cause or gates.closed
        return board(
            self.progress, time.time(), self._output.sign, without_remedy(str(stopped or ""))
        )
