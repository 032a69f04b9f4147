"""What a cycle leaves for people besides its report: the phase it is in, STATE.md, BUILDLOG.md.

None of it decides anything, so trouble with it is told and never ends a cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from driver.scheduler.backlog import ACTOR
from driver.terminal.progress import Progress
from state_store.api import StateAPI
from state_store.database import events
from state_store.documents.errors import TidegateError
from state_store.views.export import export_buildlog, export_state_md

TRACKER, IDLE = "tracker", "idle"  # beside those that a report can end in
STATE_MD, BUILDLOG_MD = "STATE.md", "BUILDLOG.md"


@dataclass(frozen=True)
class CycleStatus:
    """The status of the cycle `wave_id`, kept in `api` and shown in `state_dir`."""

    api: StateAPI
    state_dir: Path
    wave_id: str
    progress: Progress

    @contextmanager
    def shown(self) -> Iterator[CycleStatus]:
        """However the block ends, the cycle is idle after it and the files for people are new."""
        try:
            yield self
        finally:
            self.enter(IDLE)
            self._told(lambda: export_state_md(self.api, self.state_dir / STATE_MD))
            self._told(lambda: export_buildlog(self.api, self.state_dir / BUILDLOG_MD))

    def enter(self, phase: str) -> None:
        """The cycle is in this phase from now on."""
        payload = {"phase": phase, "cycle": self.wave_id}
        self._told(
            lambda: self.api.append(
                events.ORCHESTRATOR_STATUS, events.PHASE_CHANGED, payload, ACTOR
            )
        )

    def _told(self, work: Callable[[], object]) -> None:
        try:
            work()
        except TidegateError as trouble:
            self.progress.say(str(trouble))
