"""The folder for workspaces on this machine: outside every checkout, for this user only."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from driver.filesystem.temporary import temporary_folder
from driver.filesystem.tree import remove_tree
from driver.git.repository import Repository, toplevel_of
from state_store.documents.errors import CannotRunError, InputError


class WorkspaceError(CannotRunError):
    """A workspace or test checkout could not be made, set up or removed."""


@contextlib.contextmanager
def all_or_nothing(path: Path) -> Iterator[None]:
    """Remove a partly made `path` after a failure; an OSError becomes a WorkspaceError."""
    try:
        yield
    except BaseException as trouble:
        with contextlib.suppress(OSError):
            remove_tree(path)
        if isinstance(trouble, OSError):
            raise WorkspaceError(f"the workspace {path} was not made: {trouble}") from trouble
        raise


def own_folder(root: Path, environ: Mapping[str, str]) -> None:
    """Make `root` for this user only. A folder of this name owned by another user is a trap."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = root.stat().st_uid
    except OSError as trouble:
        raise WorkspaceError(f"no workspaces can be made in {root}: {trouble}") from trouble
    if sys.platform != "win32" and owner != os.geteuid():
        raise WorkspaceError(f"{root} belongs to another user: set another workspace folder")
    if outer := toplevel_of(root, environ):
        # An agent that lost its own .git would find the outer .git and commit there.
        raise InputError(f"{root} lies inside the checkout {outer}: choose a folder outside any")


def workspace_root(configured: Path | None, environ: Mapping[str, str], repo: Repository) -> Path:
    """The folder for this repository's workspaces: from the settings, else in the user's cache.
    Raises InputError if the configured folder is inside a git checkout or a git dir."""
    if configured is None:
        name = hashlib.sha256(os.fsencode(repo.top.resolve())).hexdigest()[:12]
        root = _cache_folder(environ) / "tidegate" / name
        if toplevel_of(root, environ) is None:
            return root
        return _temporary_folder(environ) / name  # a home folder kept in git
    root = configured.absolute()
    inside = toplevel_of(root, environ)
    if inside is None and Path(os.path.realpath(root)).is_relative_to(repo.common_dir.resolve()):
        inside = repo.common_dir
    if inside is not None:
        raise InputError(f"workspace folder {root} lies inside {inside}: choose one outside any")
    return root


def _cache_folder(environ: Mapping[str, str]) -> Path:
    if sys.platform == "win32":
        local = environ.get("LOCALAPPDATA")
        return Path(local) if local else _temporary_folder(environ)
    home = environ.get("HOME")
    if sys.platform == "darwin" and home:
        return Path(home) / "Library" / "Caches"
    if cache := environ.get("XDG_CACHE_HOME"):
        return Path(cache)
    return Path(home) / ".cache" if home else _temporary_folder(environ)


def _temporary_folder(environ: Mapping[str, str]) -> Path:
    user = "" if sys.platform == "win32" else f"-{os.geteuid()}"
    return temporary_folder(environ) / f"tidegate{user}"
