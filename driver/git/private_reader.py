"""Our bare git dir, and reading trees in it.

The git dir borrows the user's objects. It uses only its own configuration, hooks and index.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from driver.domain.results import MODE_NESTED, Change
from driver.execution.processes import Captured
from driver.filesystem.abilities import keeps_what_git_needs
from driver.git.command import (
    BULK_TIMEOUT_S,
    LOCAL_TIMEOUT_S,
    GitError,
    private_environment,
    raw,
    records,
    run_git,
    talking,
    text,
)
from driver.git.commit_spec import change_of, changes_between
from driver.git.loose_objects import MODE_FOLDER
from driver.git.object_check import Recent, is_named, misnamed, read_objects, touched_since
from driver.git.repository import Repository, borrow_objects, lay_git_dir
from driver.tree_files.small_trees import MOST_BYTES, Entry, SmallTrees, is_plain
from state_store.values.lazy_dataclass import dataclass, field


@dataclass(frozen=True, slots=True)
class PrivateDir:
    """A bare git dir that agents cannot write. Thread safe, if each thread has its own index."""

    path: Path
    object_format: str
    environ: Mapping[str, str] = field(repr=False)
    env: Mapping[str, str] = field(repr=False)
    _recent: Recent = field(default_factory=Recent, repr=False, compare=False)
    _stored: set[str] = field(default_factory=set, repr=False, compare=False)  # trees, by id
    _after: dict[tuple[str, tuple[Change, ...]], str] = field(
        default_factory=dict, repr=False, compare=False
    )  # trees, by the tree before and the changes
    _new_commits: set[str] = field(default_factory=set, repr=False, compare=False)
    small: SmallTrees = field(default_factory=SmallTrees, repr=False, compare=False)

    @classmethod
    def create(cls, path: Path, repo: Repository, environ: Mapping[str, str]) -> Self:
        """Create the git dir at `path`, which must not exist. Copies only a shallow file."""
        path.mkdir(parents=True, exist_ok=True)
        env = private_environment(environ, path)
        if keeps_what_git_needs(path):
            config = "\tfilemode = true\n\tbare = true\n"
            with talking(("git", "init")):
                lay_git_dir(path, repo, head="ref: refs/heads/none", config=config)
        else:
            kind = f"--object-format={repo.object_format}"
            init = ("init", "--quiet", "--bare", "--template=", kind, str(path))
            run_git(init, cwd=path, env=env)
            borrow_objects(path, repo)
        return cls(path, repo.object_format, environ, env)

    @classmethod
    def reopen(cls, path: Path, environ: Mapping[str, str]) -> Self:
        """Open the git dir of an earlier run."""
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
        """Run git on a work tree and its index."""
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


_AT_ONCE = 500  # objects to hold in memory at a time
_AS_PATCH = ("-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff",
             "--no-textconv", "--no-color")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Examined:
    """The difference of two trees. `forged` are ids of objects with another content."""

    changes: tuple[Change, ...]
    patch: bytes
    forged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PrivateTrees(PrivateDir):
    """Reads trees, their differences and contents. Every method raises GitError if git fails."""

    def tree_of(self, commit: str) -> str:
        """The id of a commit's tree."""
        if len(commit) == len(self._no_object) and (found := self._commit(commit)):
            return text(found[len(b"tree ") :].partition(b"\n")[0])
        return self._id(self._git("rev-parse", "--verify", "-q", f"{commit}^{{tree}}"))

    def commit_text(self, commit: str) -> bytes:
        """The whole text of a commit."""
        return self._commit(commit) or self._git("cat-file", "commit", commit).stdout

    def _commit(self, commit: str) -> bytes:
        """The text of the commit with this id; b"" if it is none."""
        held = self._recent.among([commit]).get(commit, b"")
        if held.startswith(b"tree "):
            return held
        printed = self._git("cat-file", "--batch", stdin=raw(f"{commit}\n")).stdout
        found = next(read_objects(printed))
        if found.kind != "commit" or found.name != commit:
            return b""
        if is_named(found):
            self._recent.keep([found])
        return found.body

    def begin(self, commit: str, *, few: bool) -> tuple[str, dict[str, Entry]]:
        """The tree of a commit and everything `listed` in it, noted for `small`. With `few` files
        the contents of a small tree are read as well, as its checkouts need them."""
        if not few:
            tree = self.tree_of(commit)
            listed = self.listed(tree)
            self.small.begin(commit, tree, _files_in(listed))
            return tree, listed
        listed, size = self._listed(commit, "-l")
        files = _files_in(listed)
        names = {name for _, name in files.values()} if is_plain(files) else set[str]()
        fed = "\n".join((commit, *(names if size <= MOST_BYTES else ()), "")).encode()
        first, *blobs = read_objects(self._git("cat-file", "--batch", stdin=fed).stdout)
        self._recent.keep([first] if is_named(first) else [])
        tree = self.tree_of(commit)
        self._stored.add(tree)
        self.small.begin(commit, tree, files)
        if blobs and all(one.kind for one in blobs):
            self.small.texts = {one.name: one.body for one in blobs}
        return tree, listed

    def subtree(self, commit: str, path: str) -> str:
        """The id of a folder's tree in a commit, or "". The folder "" is the whole tree."""
        asked = ("cat-file", "--batch-check=%(objecttype) %(objectname)")
        answer = text(self._git(*asked, stdin=raw(f"{commit}:{path}\n")).stdout)
        kind, _, found = answer.partition(" ")
        return found.strip() if kind == "tree" else ""

    def paths_in(self, tree: str) -> tuple[str, ...]:
        """Every path in a tree: files, links and nested repositories."""
        return tuple(records(self._git("ls-tree", "-r", "-z", "--name-only", tree).stdout))

    def submodules(self, tree: str, paths: Sequence[str]) -> dict[str, str]:
        """The commits of those `paths` that are submodules in a tree."""
        listed = records(self._git("ls-tree", "-z", tree, "--", *paths).stdout)
        entries = (one.partition("\t")[::2] for one in listed)
        fields = ((path, *entry.split(" ")) for entry, path in entries)
        return {path: commit for path, mode, _, commit in fields if mode == MODE_NESTED}

    def index_entry(self, index: Path, path: str) -> tuple[str, str]:
        """Mode and id of a path in an index; ("", "") if it has none."""
        listed = records(self._in(self.path, index, "ls-files", "-s", "-z", "--", path).stdout)
        mode, _, rest = (listed[0] if listed else "").partition(" ")
        return mode, rest.partition(" ")[0]

    def is_reached(self, commit: str, tips: Sequence[str], objects: Path) -> bool:
        """True if the history of a tip has the commit; all of them are in the folder `objects`."""
        env = {**self.env, "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(objects)}
        asked = (f"--git-dir={self.path}", "rev-list", "--max-count=1", commit, "--not", *tips)
        return bool(tips) and not run_git(asked, cwd=self.path, env=env).stdout.strip()

    def changes(self, base_tree: str, tree: str) -> tuple[Change, ...]:
        """The changes from one tree to another, by path. A rename is a deletion and an addition."""
        if base_tree == tree:
            return ()
        before, after = self.small.files_of(base_tree), self.small.files_of(tree)
        if before is not None and after is not None:
            return changes_between(before, after)
        listed = self._git("diff-tree", "-r", "-z", "--raw", "--no-renames", base_tree, tree)
        fields = records(listed.stdout)
        changes = tuple(map(change_of, fields[::2], fields[1::2]))
        self._derive(base_tree, tree, changes)
        return changes

    def examined(self, base_tree: str, tree: str) -> Examined:
        """The `changes` and the `patch` of two trees, and the forged objects: ids in `tree` but not
        in `base_tree` whose content does not fit the id.

        Git does not check this, and does not write an object whose name it already has. So the
        process that first writes an object decides its content.
        """
        if base_tree == tree:
            return Examined((), b"", ())
        asked = ("diff-tree", "-t", "-z", "--raw", *_AS_PATCH, base_tree, tree)
        # No field is empty, so two NULs occur only between the changes and the patch.
        listed, _, patch = self._git(*asked).stdout.partition(b"\0\0")
        fields = records(listed.rstrip(b"\0") + b"\0")
        entries = [*map(change_of, fields[::2], fields[1::2])]
        new = {c.blob for c in entries if c.blob and c.mode != MODE_NESTED} | {tree}
        changes = tuple(c for c in entries if MODE_FOLDER not in (c.mode, c.base_mode))
        self._derive(base_tree, tree, changes)
        before = {c.base_blob for c in changes if c.base_blob and c.base_mode != MODE_NESTED}
        return Examined(changes, patch, self._misnamed(new, before))

    def _derive(self, base_tree: str, tree: str, changes: Iterable[Change]) -> None:
        """Note the files of a tree for `small`, if those of the base are known."""
        self.small.derive(base_tree, tree, ((c.path, c.mode, c.blob) for c in changes))

    def listed(self, tree: str) -> dict[str, Entry]:
        """Mode and id of everything in a tree, folders too, by path."""
        found, _ = self._listed(tree)
        self._stored.add(tree)
        return found

    def _listed(self, tree: str, *sizes: str) -> tuple[dict[str, Entry], int]:
        """Everything `listed`; with "-l" also the size of all files."""
        entries = records(self._git("ls-tree", "-r", "-t", "-z", *sizes, tree).stdout)
        pairs = (entry.partition("\t")[::2] for entry in entries)
        fields = [(path, facts.split()) for facts, path in pairs]
        found = {path: (facts[0], facts[2]) for path, facts in fields}
        self._stored.update(one for mode, one in found.values() if mode == MODE_FOLDER)
        return found, sum(int(one) for _, (*_, one) in fields if sizes and one.isdecimal())

    def replaced(self, ids: Set[str], borrowed: Path) -> tuple[str, ...]:
        """The ids of forged objects written since this git dir was created, in it or in the folder
        of `borrowed` objects. Each folder is read by itself: git reads the right object in one, and
        the forged object of the same name is what others read in the other."""
        since, width = (self.path / "HEAD").stat().st_ctime_ns, len(self._no_object) // 2
        own = touched_since(self.path / "objects", since, width) & ids
        lent = touched_since(borrowed, since, width) & ids
        return tuple({*self._misnamed(own), *self._misnamed(lent, objects=borrowed)})

    def _misnamed(
        self, ids: Set[str], others: Set[str] = frozenset(), objects: Path | None = None
    ) -> tuple[str, ...]:
        """The ids of objects that are missing or have another content, in the folder `objects`, or
        in this git dir and what it borrows. The `others` are read too, because their contents are
        needed next."""
        argv = (f"--git-dir={self.path}", "cat-file", "--batch")
        env = {**self.env, **({"GIT_OBJECT_DIRECTORY": str(objects)} if objects else {})}
        found, wanted = list[str](), sorted(ids | others)
        for start in range(0, len(wanted), _AT_ONCE):
            asked = "".join(f"{one}\n" for one in wanted[start : start + _AT_ONCE]).encode()
            printed = run_git(argv, cwd=self.path, env=env, stdin=asked).stdout
            wrong = misnamed(printed)
            if not wrong and objects is None:
                self._recent.keep([*read_objects(printed)])
            found += [one for one in wrong if one in ids]
        return tuple(found)

    def patch(self, base_tree: str, tree: str) -> bytes:
        """A patch for `git apply`. Attributes in the trees cannot hide text from it."""
        return self._git("diff-tree", *_AS_PATCH, base_tree, tree).stdout

    def whole_diff(self, base_tree: str, tree: str) -> bytes:
        """The difference as lines, for readers, also of files marked as binary."""
        options = ("-r", "-p", "--text", "--full-index", "--no-renames", "--no-ext-diff",
                   "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/")  # fmt: skip
        return self._git("diff-tree", *options, base_tree, tree).stdout

    def blob(self, object_id: str) -> bytes:
        """A file's content, or a link's target."""
        return self._git("cat-file", "blob", object_id).stdout

    def contents(self, object_ids: Iterable[str]) -> dict[str, bytes]:
        """The contents of many files, read at once."""
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

    def _texts(self, ids: Collection[str]) -> Mapping[str, bytes]:
        """The contents of files of small trees. Raises ValueError if these are too large."""
        small = self.small
        with small.lock:
            if small.texts is None:
                names = {name for _, name in small.first.values()}
                asked = "".join(f"{name}\n" for name in sorted(names)).encode()
                told = self._git("cat-file", "--batch-check=%(objectsize)", stdin=asked).stdout
                sizes = text(told).split()
                if not all(map(str.isdecimal, sizes)) or sum(map(int, sizes)) > MOST_BYTES:
                    small.give_up()
                    raise ValueError("a large file, or none")
                small.texts = self.contents(names)
        known = {name: small.texts[name] for name in ids if name in small.texts}
        rest = [name for name in ids if name not in known]
        return known | (self.contents(rest) if rest else {})


def _files_in(listed: Mapping[str, Entry]) -> dict[str, Entry]:
    return {path: entry for path, entry in listed.items() if entry[0] != MODE_FOLDER}
