"""The state folder: made, and hidden from git status. Who works on what is decided by leases.

What lies in it belongs to its readers. Nothing here is called before a run is sure to start.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from driver.git.repository import exclude_from_status, open_repository, toplevel_of
from state_store.documents.errors import CannotRunError, InputError, TidegateError


def check_state_dir(state_dir: Path, repo: Path | None) -> None:
    """Raise InputError for a folder that cannot be kept out of the repository's commits."""
    if repo is not None and Path(os.path.realpath(state_dir)) == Path(os.path.realpath(repo)):
        raise InputError(f"--state-dir {state_dir} is the repository itself: name a folder in it")


def prepare_state_dir(state_dir: Path, environ: Mapping[str, str]) -> None:
    """Make the folder and hide it from `git status`. Raises CannotRunError when that cannot be."""
    _make(state_dir)
    _hide(Path(os.path.realpath(state_dir)), environ)


def _make(state_dir: Path) -> None:
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = error.strerror or error
        raise CannotRunError(f"the state folder {state_dir} cannot be made: {why}") from error
    if not os.access(state_dir, os.W_OK | os.X_OK):
        why = "allow it, or name another one with --state-dir"
        raise CannotRunError(f"the state folder {state_dir} may not be written: {why}")


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
