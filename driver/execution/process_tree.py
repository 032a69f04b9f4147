"""One running command as the orchestrator sees it: its time limit, its end, what became of it.

How a tree is started and reached is its subclass's business (`driver.supervised`, and
`driver.process` for systems without POSIX process control).
"""

from __future__ import annotations

import math
import os
import threading
import time
from abc import ABC, abstractmethod

from driver.execution.command import Command, Ending, Finished, Running, why_not
from driver.execution.streams import Streams, kept_text

# A supervisor needs at most its own kill limit after the grace; past this it is stuck.
STUCK_AFTER_S = 3.0
POLL_S = 1.0  # how late a waiting thread may notice that its supervisor is stuck


class ProcessTree(ABC):
    """One running command: its time limit, its end, and what became known of it."""

    def __init__(self, command: Command, streams: Streams, name: str) -> None:
        self.command = command
        self.started = time.monotonic()
        self.facts: dict[str, int] = {}
        self.survivors: list[str] = []
        self._streams = streams
        self._name = name
        self._lock = threading.RLock()
        self._open = True
        self._asked = False
        self._over_limit: Ending | None = None
        self._said = ""
        self._printed, self._printed_at = 0.0, self.started
        limit = command.timeout_s
        self._limit_at = math.inf if limit is None else self.started + limit
        self._give_up_at = math.inf

    @abstractmethod
    def _wait(self, timeout_s: float) -> bool:
        """Wait for news; True once it is over."""

    @abstractmethod
    def _ask(self, order: bytes) -> None:
        """Have the tree ended, gently (`e`) or at once (`k`); returns at once."""

    @abstractmethod
    def _release(self) -> None:
        """Make sure that nothing runs any more, and give back what this tree held."""

    def follow(self) -> None:
        """Wait for the end, and bring it about when the time limit has passed."""
        while (now := time.monotonic()) < self._give_up_at:
            left = self._left(now)
            if left <= 0:
                self._limit_at = math.inf
                self.end()
            elif self._wait(min(left, self._give_up_at - now, POLL_S)):
                break

    def _left(self, now: float) -> float:
        """Seconds until a limit is reached, which is then noted; once one was, there is none."""
        if self._over_limit or self._asked:
            return math.inf
        left, ending = self._limit_at - now, Ending.TIMED_OUT
        if (silence_s := self.command.silence_s) is not None:
            left, ending = min((left, ending), (silence_s - self._quiet_s(now), Ending.SILENT))
        if left <= 0:
            self._over_limit = ending
        return left

    def _quiet_s(self, now: float) -> float:
        # By our own clock: the files' one jumps when a machine wakes from its sleep.
        printed = self._streams.last_written()
        if printed != self._printed:
            self._printed, self._printed_at = printed, now
        return now - self._printed_at

    def end(self) -> None:
        """Ask for the end; asked again, for the end at once. Safe in a signal handler."""
        with self._lock:
            if not self._open:
                return
            self._ask(b"k" if self._asked else b"e")
            self._asked = True
            limit = time.monotonic() + self.command.grace_s + STUCK_AFTER_S
            self._give_up_at = min(self._give_up_at, limit)

    def close(self) -> None:
        """Let go of the tree, which ends it if it still runs."""
        with self._lock:
            self._open = False
        self._release()

    def seen(self) -> Running | None:
        """This tree for `Processes.running`, None when it has no leader (any more)."""
        with self._lock:
            if not self._open or "started" not in self.facts:
                return None
            printed = self._streams.last_written()
        age = max(0.0, time.time() - printed)  # a wall clock may step back
        return Running(self._name, self.facts["started"], self.started, age)

    def finished(self) -> Finished:
        """What is to be said about the run, without its duration."""
        ending, reason = self._ending()
        streams, keep = self._streams, self.command.keep_bytes
        return Finished(
            ending=ending,
            exit_code=self.facts["exit"] if ending is Ending.EXITED else None,
            stdout=kept_text(streams.stdout, keep, streams.stdout_file),
            stderr=kept_text(streams.stderr, keep, streams.stderr_file),
            duration_s=0.0,
            survivors=self.facts.get("survivors", 0),
            survivors_named=tuple(self.survivors),
            reason=reason,
            stdout_file=streams.stdout_file,
            stderr_file=streams.stderr_file,
        )

    def _ending(self) -> tuple[Ending, str]:
        left = self.facts.get("left", 0)
        also = f"; {left} of its processes could not be ended" if left else ""
        if problem := self._start_problem():
            return Ending.COULD_NOT_START, why_not_started(self.command, problem)
        if "exit" in self.facts and "ending" not in self.facts:
            return Ending.EXITED, also.removeprefix("; ")
        if self._over_limit:
            return self._over_limit, f"ended {self._why_ended()}{also}"
        if self._asked:
            return Ending.CANCELLED, f"cancelled{also}"
        if "ending" in self.facts:
            return Ending.LOST, "its supervisor was told to end it from elsewhere, or left alone"
        fault = "ended unexpectedly" if "supervisor" in self.facts else "did not start"
        return Ending.LOST, f"its supervisor {fault}{': ' * bool(self._said)}{self._said}"

    def _why_ended(self) -> str:
        if self._over_limit is Ending.SILENT:
            return f"after {self.command.silence_s:g} s of silence"
        return f"at its limit of {self.command.timeout_s:g} s"

    def _start_problem(self) -> OSError | None:
        if number := self.facts.get("could_not_enter"):
            return OSError(number, os.strerror(number), str(self.command.cwd))
        if number := self.facts.get("could_not_start"):
            return OSError(number, "")
        return None


def why_not_started(command: Command, problem: OSError) -> str:
    """Why a command did not start, as a sentence that names the program or the missing folder."""
    # On POSIX a string has become the arguments of a shell before it comes here.
    program = "cmd.exe" if isinstance(command.argv, str) else command.argv[0]
    if not command.cwd.is_dir():
        return f"cannot start {program}: the folder {command.cwd} does not exist"
    return why_not(program, problem)
