"""The base error classes, and their exit codes.

Every error with a remedy derives from `TidegateError`. A program's `main` prints its sentence and
returns its code. Any other exception is a bug and shows its traceback.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """A program's exit code: not 0 if a part of the request was not done."""

    DONE = 0
    NOT_ALL_SHIPPED = 1
    BAD_INPUT = 2
    STOPPED_BY_POLICY = 3
    CANNOT_RUN_HERE = 4
    INTERRUPTED = 130
    TERMINATED = 143


class TidegateError(Exception):
    """An error with a remedy. The message is one sentence with the fault, its location and the
    remedy."""

    exit_code = ExitCode.NOT_ALL_SHIPPED


class InputError(TidegateError):
    """A flag, config, tracker or manifest is wrong. `problems` lists all faults."""

    exit_code = ExitCode.BAD_INPUT

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("; ".join(self.problems))


class InvalidValue(InputError, ValueError):
    """A function of the original project got a wrong value; its callers expect a ValueError."""


class NoSuchFile(InputError, FileNotFoundError):
    """A file is missing, where callers of the original project expect a FileNotFoundError."""


class CannotRunError(TidegateError):
    """The environment lacks something, such as git, a program, a key or disk space."""

    exit_code = ExitCode.CANNOT_RUN_HERE


class StoppedByPolicyError(TidegateError):
    """A gate is closed: the halt switch, a ceiling, or a gate that cannot be checked."""

    exit_code = ExitCode.STOPPED_BY_POLICY
