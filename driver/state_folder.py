"""The state folder while a run uses it: made, hidden from git status, closed to a second run.

What lies in it belongs to its readers. Nothing here is called before a run is sure to start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from driver.git import exclude_from_status, open_repository, toplevel_of
from state_store.errors import CannotRunError, InputError, StoppedByPolicyError, TidegateError
from state_store.locks import LockHeld, exclusive_lock

LOCK = ".wave.lock"


def check_state_dir(state_dir: Path, repo: Path | None) -> None:
    """Raise InputError for a place that cannot be kept out of the repository's commits."""
    if repo is not None and state_dir.resolve() == repo.resolve():
        raise InputError(f"--state-dir {state_dir} is the repository itself: name a folder in it")


@contextmanager
def held(state_dir: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """Make the folder and be the only run that uses it; the lock ends with the process.

    Raises StoppedByPolicyError while another run has it, CannotRunError when it cannot be made.
    """
    _make(state_dir)
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive_lock(state_dir / LOCK, blocking=False))
        except LockHeld as held_by:
            who = f"process {held_by.pid}" if held_by.pid else "another process"
            raise StoppedByPolicyError(
                f"{who} runs a wave with the state folder {state_dir}: wait until it has ended,"
                " or name another --state-dir"
            ) from held_by
        _hide(state_dir.resolve(), environ)
        yield


def _make(state_dir: Path) -> None:
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = error.strerror or error
        raise CannotRunError(f"the state folder {state_dir} cannot be made: {why}") from error


def _hide(state_dir: Path, environ: Mapping[str, str]) -> None:
    top = toplevel_of(state_dir, environ)
    if top is None:
        return
    inside = state_dir.relative_to(top.resolve()).as_posix()
    pattern = re.sub(r"([\\*?\[])", r"\\\1", inside)
    # A repository that cannot be opened is not the one of this run: it has been opened before.
    try:
        repo = open_repository(top, environ)
    except TidegateError:
        return
    try:
        exclude_from_status(repo, f"/{pattern}/")
    except OSError as error:
        where = repo.common_dir / "info" / "exclude"
        raise CannotRunError(f"{where} cannot be written: {error.strerror or error}") from error
