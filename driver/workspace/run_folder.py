"""The folder of one run and one repository: the process that owns it, and the unsaved work in it.

The run writes down that the folder is its own. A later run learns from that whether it is still in
use, and saves the work in its clones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from driver.execution.process_identity import ProcessIdentity, identity, is_alive
from driver.git.command import raw, text
from driver.git.private_git import PrivateGit, Repository
from driver.workspace.saved_patch import INTERRUPTED, WORK, Origin, with_origin
from state_store.documents.errors import TidegateError
from state_store.documents.files import (
    BadFileError,
    read_bytes,
    read_json,
    write_bytes_atomic,
    write_json_atomic,
)

OWNER_FILE = "place.json"
GIT = "private.git"


@dataclass(frozen=True, slots=True)
class FolderOwner:
    """The process that made the folder and the origin of its clones; `mark` is the value that the
    run's processes have in their environment."""

    maker: ProcessIdentity
    mark: str
    origin: Origin

    @property
    def wave_id(self) -> str:
        """The wave it was made for."""
        return self.mark.rpartition("@")[0]

    @property
    def is_in_use(self) -> bool:
        """True when the process that made it is known to live."""
        return is_alive(self.maker) is True

    @property
    def is_from_elsewhere(self) -> bool:
        """True when it was made on another machine, before a restart or in another container, which
        cannot be told apart."""
        me = identity(os.getpid())
        return me is not None and (me.boot != self.maker.boot or is_alive(self.maker) is None)


def write_owner(folder: Path, mark: str, repository: Repository) -> None:
    """Write down that a new folder is this run's."""
    me = identity(os.getpid()) or ProcessIdentity(os.getpid(), None, "")
    top = raw(str(repository.top)).hex()  # a path may be no text
    origin = {"run": mark, "base": repository.head, "top": top}
    write_json_atomic(folder / OWNER_FILE, asdict(me) | origin)


def owner_of(folder: Path) -> FolderOwner | None:
    """The owner that a folder names; None when it names none, or not legibly."""
    try:
        owner = read_json(folder / OWNER_FILE)
        numbered_by = str(owner.get("numbered_by") or "")
        maker = ProcessIdentity(owner["pid"], owner["started"], owner["boot"], numbered_by)
        origin = Origin(str(owner["base"]), Path(text(bytes.fromhex(owner["top"]))))
        return FolderOwner(maker, str(owner["run"]), origin)
    except (BadFileError, TypeError, KeyError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class SavedWork:
    """The unfinished work of an item, saved as `patch`; None when it could not be, and `why`."""

    item: str
    patch: Path | None
    why: str = ""


def sentence(saved: SavedWork, folder: Path) -> str:
    """A sentence about what became of an item's work."""
    if saved.patch is not None:
        return f"saved the unfinished work on {saved.item} as {saved.patch}"
    return f"the work on {saved.item} could not be saved and stays in {folder}: {saved.why}"


def save_unfinished(folder: Path, run_dir: Path, environ: Mapping[str, str]) -> Iterator[SavedWork]:
    """Save the difference of each clone and its base as a patch among the item's files.

    Work that is saved already is passed over, and so is a clone that was moved out of reach for a
    test: it was saved before.
    """
    for clone in sorted((folder / "items").glob("*")):
        index = folder / "indexes" / clone.name
        if not index.exists():
            continue
        try:
            patch = _unsaved(folder, clone, index, run_dir / clone.name, environ)
        except (OSError, TidegateError) as trouble:
            yield SavedWork(clone.name, None, str(trouble))
        else:
            if patch is not None:
                yield SavedWork(clone.name, patch)


def _unsaved(
    folder: Path, clone: Path, index: Path, kept: Path, environ: Mapping[str, str]
) -> Path | None:
    """Save a clone's work in the folder `kept`; None when there is nothing new to save."""
    git, owner = PrivateGit.reopen(folder / GIT, environ), owner_of(folder)
    if owner is None:
        raise BadFileError(folder / OWNER_FILE, "does not say what the clones started from")
    now = git.collect(clone, index, ())
    patch = with_origin(git.patch(git.tree_of(owner.origin.base), now), owner.origin)
    if not patch:
        return None
    for name in (WORK, INTERRUPTED):
        with suppress(BadFileError):
            if read_bytes(kept / name, len(patch)) == patch:
                return None
    write_bytes_atomic(kept / INTERRUPTED, patch)
    return kept / INTERRUPTED
