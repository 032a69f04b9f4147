"""The only door to other programs."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Captured:
    """How a short, trusted helper program ended; both streams whole, as bytes."""

    argv: tuple[str, ...]
    exit_code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        """True for exit code 0."""
        return self.exit_code == 0 and not self.timed_out


def capture(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
    stdin: bytes = b"",
) -> Captured:
    """Run a trusted program such as git and return what it printed.

    Raises FileNotFoundError when the program is missing. Agents and tests never come this way:
    they go through `Processes.run`, which can end a whole tree.
    """
    with subprocess.Popen(
        list(argv),
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as child:
        try:
            out, err = child.communicate(stdin, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
            return Captured(tuple(argv), child.returncode, out, err, timed_out=True)
    return Captured(tuple(argv), child.returncode, out, err)
