"""The private git of the orchestrator: a bare git dir of ours that borrows the user's objects.

All access to agents' files goes through `PrivateGit`, which uses no configuration, hook, filter,
exclude file or index of theirs. The public names of `repository`, `remote` and `push` are
importable here too.
"""

from __future__ import annotations

import functools
import os
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from driver.domain.results import MODE_NESTED, Change
from driver.filesystem.safe_file_access import regular_bytes
from driver.filesystem.tree import OversizeError, files_of, sorted_by_kind
from driver.git.command import (
    BULK_TIMEOUT_S,
    LOCAL_TIMEOUT_S,
    GitError,
    raw,
    records,
    run_git,
    text,
)
from driver.git.commit_spec import Commit, CommitSpec, import_stream
from driver.git.loose_objects import LooseObjects
from driver.git.object_check import object_name
from driver.git.private_reader import PrivateTrees
from driver.git.push import Sending, send
from driver.git.push_result import PushResult
from driver.git.remote import Remote, find_remote
from driver.git.repository import (
    Repository,
    commit_at,
    exclude_from_status,
    fast_forward,
    open_repository,
    toplevel_of,
)
from driver.tree_files.small_edits import note_small
from driver.tree_files.small_trees import Entry, with_changes, write_small
from state_store.documents.errors import CannotRunError
from state_store.values.lazy_dataclass import dataclass

__all__ = [
    "Commit",
    "CommitSpec",
    "GitError",
    "OversizeError",
    "PrivateGit",
    "PushResult",
    "Remote",
    "Repository",
    "commit_at",
    "exclude_from_status",
    "fast_forward",
    "find_remote",
    "open_repository",
    "toplevel_of",
]

# Python writes these for every imported module, and may run them in place of the module.
_NO_WORK = ("--exclude=__pycache__/", "--exclude=*.py[co]")


def _nothing(path: str) -> bool:
    del path
    return False


@dataclass(frozen=True, slots=True)
class PrivateGit(PrivateTrees):
    """Reads work trees and writes trees and commits, in a git dir of ours.

    Every method raises GitError if git fails and CannotRunError if git is missing.
    """

    def apply(self, base_tree: str, patch: bytes) -> str:
        """The tree that results from applying `patch`, a result of `patch()`, to `base_tree`."""
        with self._temporary_index() as index:
            self._in(self.path, index, "read-tree", base_tree)
            self._in(self.path, index, "apply", "--cached", "--whitespace=nowarn", "-", stdin=patch)
            return self._id(self._in(self.path, index, "write-tree"))

    def checkout(self, tree: str, work_tree: Path, index: Path) -> None:
        """Write the files of `tree` into a new folder, and their stat data into a new index."""
        work_tree.mkdir(parents=True, exist_ok=True)
        index.unlink(missing_ok=True)
        self.switch(tree, work_tree, index)

    def switch(self, tree: str, work_tree: Path, index: Path) -> None:
        """Reset the tracked files to those of `tree`. All other files stay.

        Git decides by stat data which files to write. If times may have been set back, the caller
        first deletes the files that may have changed.
        """
        files = self.small.files_of(tree) if sys.platform == "linux" else None
        if files is not None:
            with suppress(OSError, ValueError, GitError):
                write_small(files, self._texts, work_tree, index, self.object_format)
                return
        self._in(work_tree, index, "read-tree", "--reset", "-u", tree, timeout_s=BULK_TIMEOUT_S)

    def collect(
        self,
        work_tree: Path,
        index: Path,
        owned: Sequence[str],
        *,
        made_after_ns: int = 0,
        leaves_out: Callable[[str], bool] = _nothing,
    ) -> str:
        """The tree of the files on disk: tracked, new, and `owned` files even if ignored.

        An entry of `owned` that ends in "/" is a folder; its ignored files do not count. Missing
        entries are fine. Ignored owned files whose ctime is not after `made_after_ns` are skipped.
        Paths for which `leaves_out` is true are skipped; a folder's path ends in "/". Nested
        repositories get mode 160000 and a meaningless id. Pipes, sockets and devices are
        skipped. Runs no program of the agent. Raises OversizeError before reading too much.
        """
        # Not `git add`: it starts `git status` in nested repositories, under their configuration,
        # and fails if a nested repository has no commit.
        listed = self._in(work_tree, index, "ls-files", "-z", "-m", "-o", "--exclude-standard",
                          *_NO_WORK, timeout_s=BULK_TIMEOUT_S)  # fmt: skip
        touched = {path for path in records(listed.stdout) if not leaves_out(path)}
        touched.update(files_of(work_tree, owned, made_after_ns))
        found = sorted_by_kind(work_tree, touched)
        if not found.nested:
            with suppress(OSError, ValueError, CannotRunError):
                files = self._noted(work_tree, index, found.files, found.gone)
                return self._loose.tree_of(files, self._stored)
        entries = [f"0 {self._no_object}\t{path}" for path in found.gone]
        entries += [f"{MODE_NESTED} {self._any_object}\t{path}" for path in found.nested]
        self._update_index(work_tree, index, "--index-info", entries)
        self._update_index(work_tree, index, "--stdin", found.files)
        return self._id(self._in(work_tree, index, "write-tree"))

    def names_of_files(self, work_tree: Path, paths: Sequence[str]) -> list[str]:
        """The ids of the unconverted contents of files on disk. No path may have a line break."""
        if not paths:
            return []
        asked = b"".join(raw(path) + b"\n" for path in paths)
        argv = (f"--git-dir={self.path}", "hash-object", "--no-filters", "--stdin-paths")
        env = {**self.env, "GIT_FLUSH": "0"}  # else git writes each line by a call of the system
        done = run_git(argv, cwd=work_tree, env=env, stdin=asked, timeout_s=LOCAL_TIMEOUT_S)
        return text(done.stdout).split()

    def name_of(self, content: bytes) -> str:
        """The id of a file with this content."""
        return object_name("blob", content, self.object_format)

    def ignored(self, work_tree: Path, index: Path, paths: Iterable[str]) -> dict[str, str]:
        """The ignored paths among `paths`, each with its ignore rule.

        Tracked paths count too. The path of a folder ends in "/".
        """
        asked = [path for path in paths if self._has_rules(work_tree, path)]
        fed = b"".join(b"./" + raw(path) + b"\0" for path in asked)
        if not fed:
            return {}
        # This command has no option for literal paths; the `./` switches pathspec magic off.
        argv = ("--no-literal-pathspecs", "check-ignore", "--no-index", "-v", "-z", "--stdin")
        matched = self._in(work_tree, index, *argv, stdin=fed, accept=(0, 1, 128))
        fields = iter(records(matched.stdout))
        found = zip(fields, fields, fields, fields, strict=False)
        return {path.removeprefix("./"): f"{file}:{line} {rule}" for file, line, rule, path in found
                if not rule.startswith("!")}  # fmt: skip

    def _has_rules(self, work_tree: Path, path: str) -> bool:
        """True if a file exists that could make git ignore `path`."""
        above = (work_tree / folder for folder in PurePosixPath(path).parents)
        files = (self.path / "info" / "exclude", *(folder / ".gitignore" for folder in above))
        return any(map(os.path.lexists, files))

    def tampered(
        self, work_tree: Path, index: Path, suspects: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Tracked paths whose content or mode on disk differs from the index.

        `suspects` are compared byte for byte, even if their stat data is unchanged.
        """
        if not suspects:
            return self._modified(work_tree, index)
        with self._temporary_index() as doubt:
            doubt.write_bytes(regular_bytes(index))
            held = self._in(work_tree, doubt, "ls-files", "-z", "-s", "--", *suspects)
            # Entries added by hand have no stat data, so git has to read the files.
            self._update_index(work_tree, doubt, "--index-info", records(held.stdout))
            return tuple(path for path in self._modified(work_tree, doubt) if path in suspects)

    def _modified(self, work_tree: Path, index: Path) -> tuple[str, ...]:
        listed = self._in(work_tree, index, "ls-files", "-z", "-m", timeout_s=BULK_TIMEOUT_S)
        return tuple(dict.fromkeys(records(listed.stdout)))

    def staged(self, index: Path, tree: str) -> tuple[str, ...]:
        """The paths in which an index differs from a tree."""
        asked = ("diff-index", "--cached", "--name-only", "--no-renames", "-z", tree)
        return tuple(records(self._in(self.path, index, *asked).stdout))

    def filtered(self, work_tree: Path, index: Path, paths: Sequence[str]) -> tuple[str, ...]:
        """The paths with a filter program by attributes in `index`. We never run filters."""
        asked = b"".join(raw(path) + b"\0" for path in paths)
        command = ("check-attr", "--cached", "--stdin", "-z", "filter")
        fields = records(self._in(work_tree, index, *command, stdin=asked).stdout)
        without = ("unspecified", "unset", "set", "")
        values = zip(fields[::3], fields[2::3], strict=True)
        return tuple(path for path, value in values if value not in without)

    def tree_with(self, base_tree: str, changes: Iterable[Change]) -> str:
        """The tree `base_tree` with `changes`."""
        changes = sorted(changes, key=lambda c: not c.deleted)
        with self._temporary_index() as index:
            self._in(self.path, index, "read-tree", base_tree)
            lines = [
                f"0 {self._no_object}\t{c.path}" if c.deleted else f"{c.mode} {c.blob}\t{c.path}"
                for c in changes
            ]
            self._update_index(self.path, index, "--index-info", lines)
            tree = self._id(self._in(self.path, index, "write-tree"))
        self._derive(base_tree, tree, changes)
        return tree

    def import_commits(self, parent: str, specs: Sequence[CommitSpec]) -> tuple[Commit, ...]:
        """Make a chain of commits on `parent`."""
        if not specs:
            return ()
        stream = import_stream(f"refs/tidegate/{uuid.uuid4().hex}", parent, specs)
        printed = self._git("fast-import", "--quiet", "--force", stdin=stream).stdout
        lines = text(printed).splitlines()
        trees = [line.split()[2] for line in lines[1::2]]
        before = self.small.trees.get(parent, "")
        for spec, tree in zip(specs, trees, strict=True):
            self._derive(before, tree, spec.changes)
            before = tree
        self.small.trees |= dict(zip(lines[::2], trees, strict=True))
        self._new_commits.update(lines[::2])
        return tuple(map(Commit, lines[::2], trees))

    def trees_after(self, parent: str, specs: Sequence[CommitSpec]) -> tuple[str, ...]:
        """The trees of the commits that `import_commits` would make; a crash may lose them."""
        first = self.small.trees.get(parent, parent)
        trees = list[str]()
        for spec in specs:
            before = trees[-1] if trees else first
            tree = self._after.get((before, spec.changes)) or self._tree_after(before, spec.changes)
            if not tree:
                trees = [commit.tree for commit in self.import_commits(parent, specs)]
                break
            trees.append(tree)
        for before, spec, tree in zip([first, *trees], specs, trees, strict=False):
            self._after[before, spec.changes] = tree
        return tuple(trees)

    def _tree_after(self, before: str, changes: Sequence[Change]) -> str:
        """A small tree with changes; "" if git has to make it."""
        files = self.small.files_of(before)
        if files is None:
            return ""
        changed = [(c.path, c.mode, c.blob) for c in changes]
        tree = self._loose.tree_of(with_changes(files, changed), self._stored)
        self.small.derive(before, tree, changed)
        return tree

    def stage(self, work_tree: Path, index: Path, paths: Sequence[str]) -> None:
        """Record the content, mode and stat data of files on disk in an index."""
        with suppress(OSError, ValueError, CannotRunError):
            self._noted(work_tree, index, paths, ())
            return
        self._update_index(work_tree, index, "--stdin", [*paths])

    @property
    def _loose(self) -> LooseObjects:
        return LooseObjects(self.path / "objects", self.object_format)

    def _noted(
        self, work_tree: Path, index: Path, files: Sequence[str], gone: Sequence[str]
    ) -> Mapping[str, Entry]:
        """Record files on disk in a small index; see `note_small`."""
        if sys.platform != "linux" or not self._has_modes:
            raise ValueError("git has to do it")
        store, kind = self._loose.write, self.object_format
        return note_small(work_tree, index, files, gone, kind, functools.partial(store, "blob"))

    @property
    def _has_modes(self) -> bool:
        """True if the file system keeps the modes of files, as git found out."""
        return b"filemode = true" in regular_bytes(self.path / "config")

    def commit_like(
        self, found: bytes, listed: Mapping[str, Entry], path: str, mode: str, content: bytes
    ) -> str:
        """A commit that differs from the commit of the text `found`, whose tree has the entries
        `listed`, in one file only: same parents, people, times and message. It is not durable."""
        return self._loose.commit_like(found, listed, path, mode, content)

    def store(self, content: bytes) -> str:
        """Store a file's content and return its id."""
        return self._id(self._git("hash-object", "-w", "--stdin", stdin=content))

    def create_ref(self, repo: Repository, commit: str, ref: str, was: str = "") -> None:
        """Store a commit in the user's repository as `ref`, which must be at `was` ("": absent).

        Raises GitError if `ref` has another value, except `commit` itself.
        """
        env = self.env
        at = f"--git-dir={repo.git_dir}"
        have = (at, "cat-file", "-e", commit)
        is_new = commit in self._new_commits  # made by this run, and not given away yet
        self._new_commits.discard(commit)
        if is_new or not run_git(have, cwd=repo.top, env=env, accept=(0, 1, 128)).ok:
            # Also those that the user's repository has: `index-pack` then refuses a forged one,
            # which another program laid there under the name of our object. No fetch, so no
            # FETCH_HEAD.
            known = "".join(f"^{one}\n" for one in (repo.head, was) if one)
            wanted = f"{commit}\n{known}".encode()
            pack = self._git("pack-objects", "--revs", "--stdout", "-q", stdin=wanted,
                             timeout_s=BULK_TIMEOUT_S).stdout  # fmt: skip
            run_git((at, "index-pack", "--stdin"), cwd=repo.top, env=env, stdin=pack)
        create = (at, "update-ref", "--no-deref", ref, commit, was or self._no_object)
        try:
            run_git(create, cwd=repo.top, env=env)
        except GitError:
            if commit_at(repo, ref, self.environ) != commit:  # else another run created it first
                raise

    def replace_ref(self, repo: Repository, commit: str, ref: str, old: str) -> None:
        """Store a commit in the user's repository as `ref`, and remove the ref `old` that kept it.

        Raises GitError if `ref` has another value.
        """
        lines = f"create {ref} {commit}\ndelete {old} {commit}\n"
        both = (f"--git-dir={repo.git_dir}", "update-ref", "--no-deref", "--stdin")
        done = run_git(both, cwd=repo.top, env=self.env, stdin=raw(lines), accept=(0, 1, 128))
        if not done.ok:  # one of them may be so already
            self.create_ref(repo, commit, ref)
            self.delete_ref(repo, commit, old)

    def delete_ref(self, repo: Repository, commit: str, ref: str) -> None:
        """Remove a `ref` of ours from the user's repository, if it is at `commit`."""
        drop = (f"--git-dir={repo.git_dir}", "update-ref", "--no-deref", "-d", ref, commit)
        run_git(drop, cwd=repo.top, env=self.env, accept=(0, 1))

    def push(self, remote: Remote, commit: str, branch: str, expected: str | None) -> PushResult:
        """Push a commit as `branch`, which must be at `expected` on the remote (None: absent)."""
        return send(self.path, self.environ, remote, Sending(commit, branch, expected))
