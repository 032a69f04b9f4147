"""A clock that tests move: time passes, the wall clock jumps, the machine starts anew."""

from __future__ import annotations

from state_store.documents.clock import Instant


class ManualClock:
    def __init__(self) -> None:
        self.boot = 1
        self.monotonic_s = 100.0
        self.wall_s = 1_700_000_000.0

    def now(self) -> Instant:
        return Instant(f"boot-{self.boot}", self.monotonic_s, self.wall_s)

    def pass_by(self, seconds: float) -> None:
        self.monotonic_s += seconds
        self.wall_s += seconds

    def jump(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self.wall_s += seconds

    def reboot(self, seconds: float = 30.0) -> None:
        self.boot += 1
        self.monotonic_s = 1.0
        self.wall_s += seconds
