"""Clones for agents that only answer with files: each has the files that its item owns, and those
that tell git what to ignore or where a path leads. The rest of a large tree is not written.

The work is what changed against these files, so it is the same as in a whole clone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from driver.domain.ownership import OwnedPath
from driver.domain.results import MODE_LINK
from driver.filesystem.tree import folders_above, remove_tree
from driver.git.loose_objects import LooseObjects
from driver.tree_files.small_trees import Entry, is_plain, write_small
from driver.workspace.clone_context import CloneContext
from driver.workspace.clone_workspace import CloneWorkspace
from driver.workspace.own_git import exclude
from driver.workspace.root import all_or_nothing
from state_store.documents.journal import safe_slug

_FEW = 500  # a whole clone of so few files takes no longer


class PartialCloneContext(CloneContext):
    """A context whose agents start no program in their clones, and read only what they own. Where a
    part is not enough, they get whole clones."""

    def workspace(
        self, slug: str, work_dir: str = "", owned: Sequence[OwnedPath] = ()
    ) -> CloneWorkspace:
        if (files := self._part(owned)) is not None:
            try:
                return self._partial(slug, work_dir, owned, files)
            except ValueError:  # git has to write one of them
                pass
        return super().workspace(slug, work_dir, owned)

    def _part(self, owned: Sequence[OwnedPath]) -> dict[str, Entry] | None:
        """The files that an item needs; None if it needs all."""
        if sys.platform != "linux" or len(self.paths) <= _FEW:
            return None
        if self._starts_dirty or self._prepare.copy:
            return None
        names = {one.path for one in owned}
        names |= folders_above(names)  # a file there is in the way
        below = tuple(f"{one.path}/" for one in owned)
        part = {
            path: entry
            for path, entry in self.files.items()
            if entry[0] == MODE_LINK
            or path in names
            or path.startswith(below)
            or path.rpartition("/")[2] == ".gitignore"
        }
        return part if is_plain(part) else None

    def _partial(
        self, slug: str, work_dir: str, owned: Sequence[OwnedPath], files: dict[str, Entry]
    ) -> CloneWorkspace:
        """A clone with these files. Raises ValueError if git has to write one of them."""
        name, git = safe_slug(slug), self.git
        top, index = self.folder / "items" / name, self.folder / "indexes" / name
        with all_or_nothing(top):
            remove_tree(top)
            (top / work_dir).mkdir(parents=True)
            index.unlink(missing_ok=True)
            write_small(files, git.contents, top, index, git.object_format)
            self._own_git.lay(top, index, head=self.base, branch=self.repository.branch)
        exclude(top)
        made = CloneWorkspace(self, top, index, work_dir, owned)
        made.start = LooseObjects(git.path / "objects", git.object_format).tree_of(files, set())
        return made
