"""The bare git dir of our own, and what is read from trees in it.

It borrows the user's objects; no configuration, hook or index but its own counts in it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from driver.domain.results import MODE_NESTED, Change
from driver.execution.processes import Captured
from driver.git.command import (
    BULK_TIMEOUT_S,
    LOCAL_TIMEOUT_S,
    GitError,
    private_environment,
    raw,
    records,
    run_git,
    text,
)
from driver.git.object_check import Recent, misnamed, read_objects, touched_since
from driver.git.repository import Repository, borrow_objects


@dataclass(frozen=True, slots=True)
class PrivateDir:
    """A bare git dir no agent can write; safe to use from many threads, each with its own index."""

    path: Path
    object_format: str
    environ: Mapping[str, str] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    _recent: Recent = field(default_factory=Recent, repr=False, compare=False)

    @classmethod
    def create(cls, path: Path, repo: Repository, environ: Mapping[str, str]) -> Self:
        """Make it at `path`, which may not exist yet. Nothing is copied but a shallow file."""
        path.mkdir(parents=True, exist_ok=True)
        env = private_environment(environ, path)
        made = ("init", "--quiet", "--bare", "--template=", f"--object-format={repo.object_format}")
        run_git((*made, str(path)), cwd=path, env=env)
        borrow_objects(path, repo)
        return cls(path, repo.object_format, environ, env)

    @classmethod
    def reopen(cls, path: Path, environ: Mapping[str, str]) -> Self:
        """Open the one that an earlier run made."""
        env = private_environment(environ, path)
        asked = (f"--git-dir={path}", "rev-parse", "--show-object-format")
        return cls(path, text(run_git(asked, cwd=path, env=env).stdout).strip(), environ, env)

    @property
    def _no_object(self) -> str:
        return "0" * (64 if self.object_format == "sha256" else 40)

    @property
    def _any_object(self) -> str:
        return "f" * len(self._no_object)

    def _git(self, *args: str, stdin: bytes = b"", timeout_s: float = LOCAL_TIMEOUT_S) -> Captured:
        argv = (f"--git-dir={self.path}", *args)
        return run_git(argv, cwd=self.path, env=self.env, stdin=stdin, timeout_s=timeout_s)

    def _in(
        self,
        work_tree: Path,
        index: Path,
        *args: str,
        stdin: bytes = b"",
        timeout_s: float = LOCAL_TIMEOUT_S,
        accept: Sequence[int] = (0,),
    ) -> Captured:
        """Run git on a work tree and an index of its own."""
        argv = (f"--git-dir={self.path}", f"--work-tree={work_tree}", *args)
        env = {**self.env, "GIT_INDEX_FILE": str(index)}
        return run_git(
            argv, cwd=work_tree, env=env, stdin=stdin, timeout_s=timeout_s, accept=accept
        )

    def _update_index(self, work_tree: Path, index: Path, how: str, lines: list[str]) -> None:
        if lines:
            fed = b"".join(raw(line) + b"\0" for line in lines)
            self._in(work_tree, index, "update-index", "-z", "--add", "--remove", "--replace", how,
                     stdin=fed, timeout_s=BULK_TIMEOUT_S)  # fmt: skip

    @contextmanager
    def _temporary_index(self) -> Iterator[Path]:
        path = self.path / f"index-{uuid.uuid4().hex}"
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    @staticmethod
    def _id(done: Captured) -> str:
        return text(done.stdout).strip()


_AT_ONCE = 500  # objects whose content is in memory at a time
_MODE_FOLDER = "040000"
_AS_PATCH = ("-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff",
             "--no-textconv", "--no-color")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Examined:
    """The difference of two trees; `forged` are ids of objects whose content is another."""

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
        answer = text(self._git(*asked, stdin=raw(f"{commit}:{path}\n")).stdout)
        kind, _, found = answer.partition(" ")
        return found.strip() if kind == "tree" else ""

    def paths_in(self, tree: str) -> tuple[str, ...]:
        """Every path in a tree, files, links and nested repositories alike."""
        return tuple(records(self._git("ls-tree", "-r", "-z", "--name-only", tree).stdout))

    def changes(self, base_tree: str, tree: str) -> tuple[Change, ...]:
        """The changes from one tree to another, by path; a rename is a deletion and an addition."""
        if base_tree == tree:
            return ()
        listed = self._git("diff-tree", "-r", "-z", "--raw", "--no-renames", base_tree, tree)
        fields = records(listed.stdout)
        return tuple(map(_change, fields[::2], fields[1::2]))

    def examined(self, base_tree: str, tree: str) -> Examined:
        """The `changes` and the `patch` of two trees, and the forged objects: ids that `tree` has
        over `base_tree` and whose content does not fit them.

        Git does not check that, and does not write an object that it has by name: the process that
        lays down an object first decides what is read for it.
        """
        if base_tree == tree:
            return Examined((), b"", ())
        asked = ("diff-tree", "-t", "-z", "--raw", *_AS_PATCH, base_tree, tree)
        # No field is empty, so two NULs stand between what has changed and the patch only.
        listed, _, patch = self._git(*asked).stdout.partition(b"\0\0")
        fields = records(listed.rstrip(b"\0") + b"\0")
        entries = [*map(_change, fields[::2], fields[1::2])]
        new = {c.blob for c in entries if c.blob and c.mode != MODE_NESTED} | {tree}
        changes = tuple(c for c in entries if _MODE_FOLDER not in (c.mode, c.base_mode))
        return Examined(changes, patch, self._misnamed(new))

    def objects_in(self, tree: str) -> frozenset[str]:
        """The ids of a tree and of all files, links and trees in it."""
        entries = records(self._git("ls-tree", "-r", "-t", "-z", tree).stdout)
        return frozenset({tree, *(entry.partition("\t")[0].split(" ")[2] for entry in entries)})

    def replaced(self, ids: Set[str], borrowed: Path) -> tuple[str, ...]:
        """The ids of forged objects that were laid down since this git dir was made, in it or in
        the folder of `borrowed` objects."""
        since, width = (self.path / "HEAD").stat().st_ctime_ns, len(self._no_object) // 2
        new = (touched_since(f, since, width) for f in (borrowed, self.path / "objects"))
        return self._misnamed(set[str]().union(*new) & ids)

    def _misnamed(self, ids: Iterable[str]) -> tuple[str, ...]:
        """The ids whose objects have another content, or are missing."""
        found, wanted = list[str](), sorted(ids)
        for start in range(0, len(wanted), _AT_ONCE):
            asked = "".join(f"{one}\n" for one in wanted[start : start + _AT_ONCE]).encode()
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
        printed = self._git("cat-file", "--batch", stdin=fed)
        found = {one.name: one for one in read_objects(printed.stdout)}
        if missing := [name for name, one in found.items() if not one.kind]:
            raise GitError(printed.argv, 0, f"fatal: no object {missing[0]}".encode())
        return held | {name: one.body for name, one in found.items()}


def _change(entry: str, path: str) -> Change:
    base_mode, mode, base_blob, blob, status = entry.lstrip(":").split(" ")
    gone, new = status == "D", status == "A"
    return Change(
        path=path,
        mode=None if gone else mode,
        blob=None if gone else blob,
        base_mode=None if new else base_mode,
        base_blob=None if new else base_blob,
    )
