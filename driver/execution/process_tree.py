"""The process tree of a running command: its time limit, its end, and its result.

A subclass starts and signals the tree: `supervised`, or `processes` on systems without POSIX
process control.
"""

from __future__ import annotations

import math
import os
import threading
import time
from abc import ABC, abstractmethod

from driver.execution.command import Command, Ending, Finished, Running, why_not
from driver.execution.streams import Streams, kept_text

# After the grace a supervisor needs at most its own kill limit. If it takes longer, it is stuck.
STUCK_AFTER_S = 3.0
POLL_S = 1.0  # how late a waiting thread may notice that its supervisor is stuck
WATCH_S = 0.25
_WATCH_SHARE = 20  # a watch takes at most this part of the time


class ProcessTree(ABC):
    """The process tree of a running command, with its limits and known facts."""

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
        self._reached = ""
        self._watch_at = math.inf if command.watch is None else self.started + WATCH_S
        self._last_words = ""
        self._printed, self._printed_at = 0.0, self.started
        limit = command.timeout_s
        self._limit_at = math.inf if limit is None else self.started + limit
        self._give_up_at = math.inf

    @abstractmethod
    def _wait(self, timeout_s: float) -> bool:
        """Wait for the next event; True after the end of the tree."""

    @abstractmethod
    def _ask(self, order: bytes) -> None:
        """Order the tree to end, with grace (`e`) or at once (`k`). Does not wait."""

    @abstractmethod
    def _release(self) -> None:
        """Kill whatever still runs, and release the resources of this tree."""

    def follow(self) -> None:
        """Wait for the end of the tree, and order it when a limit is reached."""
        while (now := time.monotonic()) < self._give_up_at:
            left = self._left(now)
            if left <= 0:
                self._limit_at = math.inf
                self.end()
            elif self._wait(min(left, self._give_up_at - now, POLL_S, self._watch_at - now)):
                break

    def _left(self, now: float) -> float:
        """Seconds until the next limit. Records a limit that is reached; infinite after that."""
        if self._over_limit or self._asked:
            self._watch_at = math.inf
            return math.inf
        left, ending = self._limit_at - now, Ending.TIMED_OUT
        if (silence_s := self.command.silence_s) is not None:
            # By the monotonic clock: the clock of the files jumps when a machine wakes from sleep.
            printed = self._streams.last_written()
            if printed != self._printed:
                self._printed, self._printed_at = printed, now
            quiet_s = now - self._printed_at
            left, ending = min((left, ending), (silence_s - quiet_s, Ending.SILENT))
        if now >= self._watch_at and (reached := self._watched()):
            self._reached = reached
            left, ending = 0.0, Ending.OVER_LIMIT
        if left <= 0:
            self._over_limit = ending
            self._watch_at = math.inf
        return left

    def _watched(self) -> str:
        """The limit that the tree has reached, in a sentence; "" for none."""
        began = time.monotonic()
        root = self.facts.get("supervisor") or self.facts.get("started")
        told = ""
        if root and self.command.watch is not None:
            told = self.command.watch(root, self._streams.size())
        now = time.monotonic()
        self._watch_at = now + max(WATCH_S, _WATCH_SHARE * (now - began))
        return told

    def end(self) -> None:
        """Order the end of the tree; a second call kills it. Safe in a signal handler."""
        with self._lock:
            if not self._open:
                return
            self._ask(b"k" if self._asked else b"e")
            self._asked = True
            limit = time.monotonic() + self.command.grace_s + STUCK_AFTER_S
            self._give_up_at = min(self._give_up_at, limit)

    def close(self) -> None:
        """Release the tree, and kill it if it still runs."""
        with self._lock:
            self._open = False
        self._release()

    def seen(self) -> Running | None:
        """This tree for `Processes.running`; None before its leader starts and after its end."""
        with self._lock:
            if not self._open or "started" not in self.facts:
                return None
            printed = self._streams.last_written()
        age = max(0.0, time.time() - printed)  # the wall clock may step back
        return Running(self._name, self.facts["started"], self.started, age)

    def finished(self) -> Finished:
        """The result of the run, without its duration."""
        ending, reason = self._ending()
        streams, keep = self._streams, self.command.keep_bytes
        streams.redact()
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
        problem = None
        if number := self.facts.get("could_not_enter"):
            problem = OSError(number, os.strerror(number), str(self.command.cwd))
        elif number := self.facts.get("could_not_start"):
            problem = OSError(number, "")
        if problem:
            return Ending.COULD_NOT_START, why_not_started(self.command, problem)
        if "exit" in self.facts and "ending" not in self.facts:
            return Ending.EXITED, also.removeprefix("; ")
        if self._over_limit:
            return self._over_limit, f"{self._limit_reached()}{also}"
        if self._asked:
            return Ending.CANCELLED, f"cancelled{also}"
        if "ending" in self.facts:
            return Ending.LOST, "another process made its supervisor end it"
        fault = "ended unexpectedly" if "supervisor" in self.facts else "did not start"
        words = f": {self._last_words}" if self._last_words else ""
        return Ending.LOST, f"its supervisor {fault}{words}"

    def _limit_reached(self) -> str:
        """The sentence about the limit that ended the tree."""
        if self._over_limit is Ending.SILENT:
            return f"ended after {self.command.silence_s:g} s of silence"
        return self._reached or f"ended at its limit of {self.command.timeout_s:g} s"


def why_not_started(command: Command, problem: OSError) -> str:
    """The reason why a command did not start. Names the program or the missing folder."""
    # On POSIX a string has already become the arguments of a shell.
    program = "cmd.exe" if isinstance(command.argv, str) else command.argv[0]
    if not command.cwd.is_dir():
        return f"cannot start {program}: the folder {command.cwd} does not exist"
    return why_not(program, problem)
