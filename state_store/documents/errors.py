"""The root of the error tree and the exit codes that errors map to.

Every error that a person can act on derives from `TidegateError`; a program's `main` prints its
one sentence and returns its code. Anything else is a bug and shows its traceback.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """A program's exit code; non-zero whenever something that was asked for was not done."""

    DONE = 0
    NOT_ALL_SHIPPED = 1
    BAD_INPUT = 2
    STOPPED_BY_POLICY = 3
    CANNOT_RUN_HERE = 4
    INTERRUPTED = 130
    TERMINATED = 143


class TidegateError(Exception):
    """Something a person can act on; the message is one sentence: what, where, the remedy."""

    exit_code = ExitCode.NOT_ALL_SHIPPED


class InputError(TidegateError):
    """A flag, config, tracker or manifest is wrong; `problems` lists all that was found at once."""

    exit_code = ExitCode.BAD_INPUT

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("; ".join(self.problems))


class CannotRunError(TidegateError):
    """The environment lacks something: git, a backend's program, a key, room on the disk."""

    exit_code = ExitCode.CANNOT_RUN_HERE


class StoppedByPolicyError(TidegateError):
    """A gate says no: the halt switch, a ceiling, or a gate that could not be asked."""

    exit_code = ExitCode.STOPPED_BY_POLICY
