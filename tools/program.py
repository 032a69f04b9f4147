"""How a small program ends: its exit code, and where it failed one sentence on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from state_store.documents.errors import CannotRunError, ExitCode, TidegateError


def told(program: str, work: Callable[[], int]) -> int:
    """The exit code of `work`; what a TidegateError says goes to stderr behind the name."""
    try:
        return from_here(work)
    except TidegateError as error:
        sys.stderr.write(f"{program}: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def from_here(work: Callable[[], int]) -> int:
    """The exit code of `work`. Raises CannotRunError where it fails as the current folder is
    gone."""
    try:
        return work()
    except FileNotFoundError:
        require_current_folder()  # the likely cause, which Python's own error does not name
        raise
    except PermissionError as error:
        why = "may not be used by this user: allow it, or be its owner"
        raise CannotRunError(f"{error.filename} {why}") from error


def require_current_folder() -> None:
    """Raise CannotRunError where the current folder was removed; every place counts from it."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise CannotRunError("the current folder is gone; go into one that is there") from error
