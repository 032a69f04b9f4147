"""The folder of one run and one repository: whose it is, from which commit, what is in it unsaved.

The run that makes it signs it. Afterwards anybody can tell whether it is still in use, and save
the work in its clones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from driver.execution.process_identity import ProcessIdentity, identity, lives
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
    """Who made the folder, for which wave, and what its clones started from; `mark` is what the
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
        """Whether the process that made it is known to live."""
        return lives(self.maker) is True

    @property
    def is_from_elsewhere(self) -> bool:
        """Whether it was made on another machine, before a restart or in another container: nobody
        can tell which."""
        me = identity(os.getpid())
        return me is not None and (me.boot != self.maker.boot or lives(self.maker) is None)


def write_owner(folder: Path, mark: str, repository: Repository) -> None:
    """Write down whose a new folder is."""
    me = identity(os.getpid()) or ProcessIdentity(os.getpid(), None, "")
    top = raw(str(repository.top)).hex()  # a path may be no text
    said = {"run": mark, "base": repository.head, "top": top}
    write_json_atomic(folder / OWNER_FILE, asdict(me) | said)


def owner_of(folder: Path) -> FolderOwner | None:
    """What is written there; None for a folder that nobody signed, or not legibly."""
    try:
        said = read_json(folder / OWNER_FILE)
        numbered_by = str(said.get("numbered_by") or "")
        maker = ProcessIdentity(said["pid"], said["started"], said["boot"], numbered_by)
        origin = Origin(str(said["base"]), Path(text(bytes.fromhex(said["top"]))))
        return FolderOwner(maker, str(said["run"]), origin)
    except (BadFileError, TypeError, KeyError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class SavedWork:
    """An item whose unfinished work was saved as `patch`, or could not be, and `why`."""

    item: str
    patch: Path | None
    why: str = ""


def sentence(saved: SavedWork, folder: Path) -> str:
    """What happened to an item's work, as a sentence."""
    if saved.patch is not None:
        return f"saved the unfinished work on {saved.item} as {saved.patch}"
    return f"the work on {saved.item} could not be saved and stays in {folder}: {saved.why}"


def save_unfinished(folder: Path, run_dir: Path, environ: Mapping[str, str]) -> Iterator[SavedWork]:
    """Save what differs in each clone from its base as a patch among the item's files.

    Work that is saved already is passed over, and so is a clone that was out of its agent's reach:
    it was saved before it was tested.
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
    folder: Path, clone: Path, index: Path, beside: Path, environ: Mapping[str, str]
) -> Path | None:
    git, signed = PrivateGit.reopen(folder / GIT, environ), owner_of(folder)
    if signed is None:
        raise BadFileError(folder / OWNER_FILE, "does not say what the clones started from")
    base = signed.origin.base
    now = git.collect(clone, index, ())
    patch = with_origin(git.patch(git.tree_of(base), now), signed.origin)
    if not patch or any(_holds(beside / name, patch) for name in (WORK, INTERRUPTED)):
        return None
    write_bytes_atomic(beside / INTERRUPTED, patch)
    return beside / INTERRUPTED


def _holds(path: Path, patch: bytes) -> bool:
    with suppress(BadFileError):
        return read_bytes(path, len(patch)) == patch
    return False
