"""The folder of one run and one repository: its owner, and the unsaved work in it. The run records
that it owns the folder. A later run reads the record to see if the folder is still in use, and
saves the work in its clones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from driver.execution.process_identity import ProcessIdentity, identity, is_alive
from driver.git.command import raw, text
from driver.git.private_git import PrivateGit, Repository
from driver.policy.by_products import ByProducts, folders_of
from driver.workspace.saved_patch import INTERRUPTED, WORK, Origin, with_origin
from state_store.documents.errors import TidegateError
from state_store.documents.files import (
    BadFileError,
    read_bytes,
    read_json,
    write_bytes_atomic,
    write_json_atomic,
)
from state_store.values.lazy_dataclass import asdict, dataclass

OWNER_FILE = "place.json"
GIT = "private.git"
_LEFT = "left"


@dataclass(frozen=True, slots=True)
class FolderOwner:
    """The process that made the folder, and the origin of its clones. `mark` is in the environment
    of the run's agents; `key` is the key of the marks of its tests (`process_marks`)."""

    maker: ProcessIdentity
    mark: str
    origin: Origin
    key: str = ""

    @property
    def wave_id(self) -> str:
        """The id of the wave that the folder was made for."""
        return self.mark.rpartition("@")[0]

    @property
    def is_in_use(self) -> bool:
        """True if the process that made the folder is known to be alive."""
        return is_alive(self.maker) is True

    @property
    def is_from_elsewhere(self) -> bool:
        """True if the folder is from another machine or container, or from before a restart. These
        cases look the same."""
        me = identity(os.getpid())
        return me is not None and (me.boot != self.maker.boot or is_alive(self.maker) is None)


def write_owner(folder: Path, mark: str, key: str, repository: Repository) -> None:
    """Record this run as the owner of a new folder."""
    me = identity(os.getpid()) or ProcessIdentity(os.getpid(), None, "")
    top = raw(str(repository.top)).hex()  # a path need not be valid text
    origin = {"run": mark, "key": key, "base": repository.head, "top": top}
    write_json_atomic(folder / OWNER_FILE, asdict(me) | origin)


def leave(folders: Iterable[Path]) -> None:
    """Note that a run needs its folders no more, and only has to remove them."""
    for folder in folders:
        with suppress(OSError):
            (folder / _LEFT).touch()


def left_in(root: Path) -> Iterator[Path]:
    """The folders in `root` that their runs needed no more when they were killed."""
    for note in root.glob(f"*/{_LEFT}"):
        folder = note.parent
        owner = None if folder.is_symlink() else owner_of(folder)
        if owner is not None and is_alive(owner.maker) is False:
            yield folder


def owner_of(folder: Path) -> FolderOwner | None:
    """The recorded owner of a folder; None without a readable record."""
    try:
        owner = read_json(folder / OWNER_FILE)
        numbered_by = str(owner.get("numbered_by") or "")
        maker = ProcessIdentity(owner["pid"], owner["started"], owner["boot"], numbered_by)
        origin = Origin(str(owner["base"]), Path(text(bytes.fromhex(owner["top"]))))
        return FolderOwner(maker, str(owner["run"]), origin, str(owner.get("key") or ""))
    except (BadFileError, TypeError, KeyError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class SavedWork:
    """The unfinished work of an item, saved as `patch`. If it could not be saved, None, and
    `why`."""

    item: str
    patch: Path | None
    why: str = ""


def sentence(saved: SavedWork, folder: Path) -> str:
    """A sentence about the result for an item's work."""
    if saved.patch is not None:
        return f"saved the unfinished work on {saved.item} as {saved.patch}"
    return f"the work on {saved.item} could not be saved and stays in {folder}: {saved.why}"


def save_unfinished(folder: Path, run_dir: Path, environ: Mapping[str, str]) -> Iterator[SavedWork]:
    """Save the difference between each clone and its base as a patch in the item's folder. Skips
    saved work, and a clone that was moved away for a test: its work was saved before."""
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
    """Save a clone's work in the folder `kept`; None if there is nothing new to save."""
    git, owner = PrivateGit.reopen(folder / GIT, environ), owner_of(folder)
    if owner is None:
        raise BadFileError(folder / OWNER_FILE, "does not name the base of the clones")
    base = git.tree_of(owner.origin.base)
    tracked = frozenset(git.paths_in(base))
    by_products = ByProducts(
        tracked, folders_of(tracked), lambda path: os.path.lexists(clone / path)
    )
    now = git.collect(clone, index, (), leaves_out=lambda path: bool(by_products.found(path)))
    patch = with_origin(git.patch(base, now), owner.origin)
    if not patch:
        return None
    for name in (WORK, INTERRUPTED):
        with suppress(BadFileError):
            if read_bytes(kept / name, len(patch)) == patch:
                return None
    write_bytes_atomic(kept / INTERRUPTED, patch)
    return kept / INTERRUPTED
