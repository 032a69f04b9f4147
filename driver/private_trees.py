"""What is read of trees and objects in the git dir of our own; nothing is written by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from driver.domain.results import MODE_NESTED, Change
from driver.git_command import GitError, raw, records, text
from driver.object_store import touched_since
from driver.objects import misnamed, read_objects
from driver.private_dir import PrivateDir

_AT_ONCE = 500  # objects whose content is in memory
_MODE_FOLDER = "040000"
_AS_PATCH = ("-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff",
             "--no-textconv", "--no-color")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Examined:
    """The difference of two trees; `forged` are ids of objects that are not what they say."""

    changes: tuple[Change, ...]
    patch: bytes
    forged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PrivateTrees(PrivateDir):
    """Trees, their differences and contents. Every method raises GitError when git fails."""

    def tree_of(self, commit: str) -> str:
        """The id of a commit's tree."""
        return self._id(self._git("rev-parse", "--verify", "-q", f"{commit}^{{tree}}"))

    def subtree(self, commit: str, path: str) -> str:
        """The id of a folder's tree in a commit, of the whole one for ""; "" where it has none."""
        asked = ("cat-file", "--batch-check=%(objecttype) %(objectname)")
        kind, _, found = text(self._git(*asked, stdin=raw(f"{commit}:{path}\n")).stdout).partition(
            " "
        )
        return found.strip() if kind == "tree" else ""

    def paths_in(self, tree: str) -> tuple[str, ...]:
        """Every path in a tree, files, links and nested repositories alike."""
        return tuple(records(self._git("ls-tree", "-r", "-z", "--name-only", tree).stdout))

    def changes(self, base_tree: str, tree: str) -> tuple[Change, ...]:
        """What differs between two trees, by path; a rename is a deletion and an addition."""
        if base_tree == tree:
            return ()
        told = self._git("diff-tree", "-r", "-z", "--raw", "--no-renames", base_tree, tree)
        fields = records(told.stdout)
        return tuple(map(_change, fields[::2], fields[1::2]))

    def examined(self, base_tree: str, tree: str) -> Examined:
        """What `changes` and `patch` tell of two trees, and the ids of what `tree` has over
        `base_tree` whose content is another than they say.

        Git never looks, and does not write what it has by name: whoever lays down an object first
        decides what is read for it.
        """
        if base_tree == tree:
            return Examined((), b"", ())
        asked = ("diff-tree", "-t", "-z", "--raw", *_AS_PATCH, base_tree, tree)
        # No field is empty, so two NULs stand between what has changed and the patch only.
        told, _, patch = self._git(*asked).stdout.partition(b"\0\0")
        fields = records(told.rstrip(b"\0") + b"\0")
        entries = [*map(_change, fields[::2], fields[1::2])]
        new = {c.blob for c in entries if c.blob and c.mode != MODE_NESTED} | {tree}
        changes = tuple(c for c in entries if _MODE_FOLDER not in (c.mode, c.base_mode))
        return Examined(changes, patch, self._misnamed(new))

    def objects_in(self, tree: str) -> frozenset[str]:
        """The ids of a tree and of all files, links and trees in it."""
        told = records(self._git("ls-tree", "-r", "-t", "-z", tree).stdout)
        return frozenset({tree, *(line.partition("\t")[0].split(" ")[2] for line in told)})

    def replaced(self, ids: Set[str], borrowed: Path) -> tuple[str, ...]:
        """Those of the ids that have another content than they say, laid down since this git dir
        was made, in it or in the folder of `borrowed` objects."""
        since, width = (self.path / "HEAD").stat().st_ctime_ns, len(self._no_object) // 2
        folders = (borrowed, self.path / "objects")
        return self._misnamed(
            set[str]().union(*(touched_since(f, since, width) for f in folders)) & ids
        )

    def _misnamed(self, ids: Iterable[str]) -> tuple[str, ...]:
        found: list[str] = []
        for some in _batches(sorted(ids)):
            asked = "".join(f"{one}\n" for one in some).encode()
            printed = self._git("cat-file", "--batch", stdin=asked).stdout
            wrong = misnamed(printed)
            if not wrong:
                self._recent.keep(printed)
            found += wrong
        return tuple(found)

    def patch(self, base_tree: str, tree: str) -> bytes:
        """A patch `git apply` takes. Attributes in the trees cannot hide text from it."""
        return self._git("diff-tree", *_AS_PATCH, base_tree, tree).stdout

    def whole_diff(self, base_tree: str, tree: str) -> bytes:
        """The difference as lines, for reading: also of files that call themselves binary."""
        options = ("-r", "-p", "--text", "--full-index", "--no-renames", "--no-ext-diff",
                   "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/")  # fmt: skip
        return self._git("diff-tree", *options, base_tree, tree).stdout

    def blob(self, object_id: str) -> bytes:
        """A file's content, or a link's target."""
        return self._git("cat-file", "blob", object_id).stdout

    def contents(self, object_ids: Iterable[str]) -> dict[str, bytes]:
        """The content of each of many files, read at once."""
        wanted = list(dict.fromkeys(object_ids))
        held = self._recent.among(wanted)
        fed = "".join(f"{one}\n" for one in wanted if one not in held).encode()
        if not fed:
            return held
        told = self._git("cat-file", "--batch", stdin=fed)
        found = {one.name: one for one in read_objects(told.stdout)}
        if missing := [name for name, one in found.items() if not one.kind]:
            raise GitError(told.argv, 0, f"fatal: no object {missing[0]}".encode())
        return held | {name: one.body for name, one in found.items()}


def _batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE))


def _change(told: str, path: str) -> Change:
    base_mode, mode, base_blob, blob, status = told.lstrip(":").split(" ")
    gone, new = status == "D", status == "A"
    return Change(
        path=path,
        mode=None if gone else mode,
        blob=None if gone else blob,
        base_mode=None if new else base_mode,
        base_blob=None if new else base_blob,
    )
