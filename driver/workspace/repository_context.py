"""The base classes of repository contexts. A context creates one workspace for each item. Their
defaults describe a folder in no repository (`in_place`). `clone_context` makes the private clones
and test checkouts of a repository."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import MappingProxyType

from driver.checkout_guard.guard import CheckoutGuard
from driver.domain.ownership import OwnedPath
from driver.domain.results import Change
from driver.filesystem.tree import Signature, remove_tree
from driver.git.branch_view import BranchView
from driver.git.loose_objects import MODE_FOLDER
from driver.git.private_git import PrivateGit, Remote, Repository
from driver.git.repository import configured
from driver.git.signing import Signer
from driver.git.user_hooks import UserHooks
from driver.policy.by_products import folders_of
from driver.tree_files.small_trees import Entry, with_changes
from driver.workspace.root import WorkspaceError
from state_store.values.lazy_dataclass import dataclass, field

CLONE = "clone"
IN_PLACE = "in_place"
_MAX_NAMED = 20
_SMALL_INDEX = 1 << 17  # bytes, for some 1,500 files
# `text=auto` alone changes no file that is written on this system.
_CONVERSIONS = ("eol", "crlf", "ident", "filter", "working-tree-encoding", "[attr]")
REPLACED = "objects of your repository were given another content (see `git fsck`): {}"


def has_rules(path: str) -> bool:
    """True for a file of git attributes."""
    return path.rpartition("/")[2] == ".gitattributes"


@dataclass(frozen=True, slots=True)
class Observed:
    """The files on disk after an agent ran, compared with the base; never the agent's own report.

    `is_replaced` is true if the agent put a link in place of its workspace. `git_traces` tell what
    it did with git there: commits, branches, tags, stashes and worktrees, which are no part of its
    work. `left_out` names the by-products of programs, which are no part of it either. `line_ends`
    are the files that the agent saved with other line ends than the base has, or git would give
    them; they have those in `tree`. `of_others` names files of other items' work. `ignored`
    has the new files that git ignores, each with the rule. `unfiltered` files need a filter program
    of git.
    """

    changes: tuple[Change, ...]
    tree: str | None = None
    is_replaced: bool = False
    git_traces: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    line_ends: tuple[str, ...] = ()
    of_others: tuple[str, ...] = ()
    links_outside: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unfiltered: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what is no part of the work and no offence."""
        moved = [f"{c.path} to {(c.blob or '')[:12]}" for c in self.changes if c.moves_submodule]
        notes: tuple[tuple[str, Sequence[str]], ...] = (
            ("its work is what is on disk; dropped from its own git: ", self.git_traces),
            ("left out of its work, as programs leave it behind: ", self.left_out),
            ("saved with other line ends; the usual ones were kept: ", self.line_ends),
            ("left out, as another item at work wrote it here: ", self.of_others),
            ("moves submodules, whose own work is not tested here: ", moved),
        )
        return tuple(what + ", ".join(found[:_MAX_NAMED]) for what, found in notes if found)


@dataclass
class TestCheckout:
    """A folder to run a test in, with variables for the test. Without a git tree, nothing counts as
    changed."""

    __test__ = False  # pytest collects classes by this name otherwise

    path: Path
    environment: Mapping[str, str] = field(default_factory=dict, kw_only=True)

    def tampered(self) -> tuple[str, ...]:
        """Tracked paths whose content or mode differs from the git tree."""
        return ()

    def touched(self, written: Mapping[str, Signature]) -> tuple[str, ...]:
        """Files of the tree that were written since the checkout was lent, even with the same
        content. The paths `written` had these signatures last."""
        del written
        return ()


class Workspace(ABC):
    """The files of one item. `top` holds the repository's files; the agent runs in `workdir` with
    the variables `environment`."""

    isolation = IN_PLACE
    environment: Mapping[str, str] = MappingProxyType({})
    top: Path
    workdir: Path

    @abstractmethod
    def observe(self) -> Observed:
        """Compare the files on disk with the base."""

    @abstractmethod
    def contents(self, change: Change) -> bytes:
        """The bytes of a changed file; empty for a deletion."""

    def ignored(self) -> tuple[str, ...]:
        """Owned paths that git ignores, each with the rule."""
        return ()

    @contextmanager
    def test_checkout(self, tree: str | None, *, fresh: bool = False) -> Iterator[TestCheckout]:
        """A checkout of `tree` for a test; waits while all are in use. With `fresh`, no test ever
        ran in it. In place `tree` is None and the checkout is the folder itself."""
        del tree, fresh
        yield TestCheckout(self.top)

    @contextmanager
    def reading_copy(self, tree: str) -> Iterator[TestCheckout]:
        """A temporary copy of `tree` for a reviewer. It cannot reach the agent's files
        meanwhile."""
        del tree
        yield TestCheckout(self.top)

    def base_with(self, changes: Sequence[Change]) -> str | None:
        """The base's tree with only these changes; None in place."""
        del changes
        return None

    def patch(self, tree: str | None) -> bytes:
        """The difference between base and `tree`, as git prints it; empty in place."""
        del tree
        return b""

    def whole_diff(self, tree: str, since: str | None = None) -> bytes:
        """All changes of `tree` against the base or the tree `since`, as lines; empty in place."""
        del tree, since
        return b""

    def put(self, tree: str) -> None:
        """Put an earlier run's work into a workspace in which no agent has worked yet."""
        del tree

    def forget_commits(self) -> None:
        """Reset the agent's branch to the base and leave the files unchanged. A `.git` that the
        agent removed or broke is made anew. Other traces in git stay, but `observe` does not report
        them again."""
        return

    def close(self) -> None:
        """Remove the workspace. Raises WorkspaceError that names what remains."""
        return


class RepositoryContext(ABC):
    """The repository or folder that a set of items works on. Items start from the commit `base`;
    `paths` are all paths in it. `checkout_guard` watches the user's own checkout if it is another
    folder."""

    base = ""
    paths: frozenset[str] = frozenset()
    checkout_guard: CheckoutGuard | None = None

    @abstractmethod
    def workspace(
        self, slug: str, work_dir: str = "", owned: Sequence[OwnedPath] = ()
    ) -> Workspace:
        """A fresh workspace for the item; an earlier workspace of the item is removed."""

    def text(self, path: str) -> str:
        """The text of a file of the base; "" without such a file."""
        del path
        return ""

    def changes(self, earlier: str, tree: str) -> tuple[Change, ...]:
        """The differences between two trees."""
        del earlier, tree
        return ()

    def show_as_tracked(
        self, checkout: TestCheckout, path: str, *, committed: bool, changed: Sequence[str] = ()
    ) -> None:
        """Make git see a file of a test checkout as staged, or with `committed` as a file of the
        base, until the checkout shows another tree. The files `changed` stay the newest."""
        del checkout, path, committed, changed

    def close(self) -> None:
        """Remove everything that was made for the wave."""
        return


class GitContext(RepositoryContext):
    """A repository at its base commit, with the settings for publication.

    `repository.head` is the base. Work is pushed to `remote`, None for no push. `branches` reads
    and moves the branches here and on the remote. `moved_to` is the commit to which this run itself
    moved the branch before the first agent started. `leftovers` are the user's patterns of files
    that are never part of any work. `configured` are the settings of the user's git at the start.
    """

    def __init__(self, git: PrivateGit, repository: Repository, remote: Remote | None) -> None:
        self.git = git
        self.repository = repository
        self.remote = remote
        self.environ = git.environ
        self.branches = BranchView(repository, git.environ, remote, git)
        self.base = repository.head
        self.base_tree, self.listed = git.begin(self.base, few=_has_few_files(repository))
        folders = (path for path, entry in self.listed.items() if entry[0] == MODE_FOLDER)
        self.paths = frozenset(self.listed.keys() - folders)
        self.hooks = UserHooks()
        self.signer: Signer | None = None
        self.moved_to = ""
        self.leftovers: tuple[str, ...] = ()
        self.configured: Sequence[tuple[str, str]] = ()
        self._texts: dict[str, str] = {}  # every item's test command reads the same few files

    @abstractmethod
    def test_checkout(
        self, tree: str | None, *, fresh: bool = False
    ) -> AbstractContextManager[TestCheckout]:
        """Opens a checkout of a tree for work that no longer has a workspace."""

    @abstractmethod
    def reading_copy(self, tree: str) -> AbstractContextManager[TestCheckout]:
        """A checkout of `tree` to read, which no test ever uses."""

    @abstractmethod
    def lay_git(self, path: Path, index: Path) -> None:
        """Give a checkout a new `.git` at the base, with a copy of `index`."""

    def keep(self, folder: Path) -> bool:
        """Keep the folder of a workspace for a later one; False if it is to be removed."""
        del folder
        return False

    def remove(self, folder: Path) -> None:
        """Remove the folder of a workspace or checkout. Raises OSError."""
        remove_tree(folder)

    def base_with(self, changes: Sequence[Change]) -> str:
        """The base's tree with only these changes."""
        return self.git.tree_with(self.base_tree, changes)

    def changes(self, earlier: str, tree: str) -> tuple[Change, ...]:
        return self.git.changes(earlier, tree)

    def text(self, path: str) -> str:
        if path not in self.paths:
            return ""
        if path not in self._texts:
            blob = self.listed[path][1]
            self._texts[path] = self.git.contents([blob])[blob].decode("utf-8", "replace")
        return self._texts[path]

    @functools.cached_property
    def base_text(self) -> bytes:
        """The text of the base commit."""
        return self.git.commit_text(self.base)

    @functools.cached_property
    def folders(self) -> frozenset[str]:
        """Every folder of the base, including "."."""
        return folders_of(self.paths)

    @functools.cached_property
    def converts_line_ends(self) -> bool:
        """True if the user's git commits new files with LF, whatever they have on disk."""
        settings = self.configured or configured(self.repository, self.environ)
        set_to = dict(settings).get("core.autocrlf", "false")
        return set_to.lower() in ("true", "input", "yes", "on", "1")

    @functools.cached_property
    def has_attributes(self) -> bool:
        """True if the base has a `.gitattributes` file."""
        return any(map(has_rules, self.paths))

    @functools.cached_property
    def files(self) -> Mapping[str, Entry]:
        """Mode and id of each file, link and submodule of the base."""
        return {path: self.listed[path] for path in self.paths}

    def files_in(self, changes: Sequence[Change]) -> Mapping[str, Entry] | None:
        """The `files` of a tree with these changes against the base; None if attributes may give
        the files on disk other contents than they have in git."""
        if any(has_rules(c.path) for c in changes) or self._may_convert:
            return None
        if not changes:
            return self.files
        return with_changes(self.files, ((c.path, c.mode, c.blob) for c in changes))

    @functools.cached_property
    def _may_convert(self) -> bool:
        """True if a file of attributes in the base may be more than notes for diffs and merges."""
        rules = map(self.text, filter(has_rules, self.paths))
        return any(word in text for text in rules for word in _CONVERSIONS)

    @functools.cached_property
    def _objects(self) -> frozenset[str]:
        return frozenset({self.base_tree, *(name for _, name in self.listed.values())})

    def replaced_objects(self) -> tuple[str, ...]:
        """Objects of the base whose content was replaced since the wave began. Nothing can be
        proven then: tests see the replaced content, but other clones get the original."""
        return self.git.replaced(self._objects, self.repository.objects)

    def require_objects(self) -> None:
        """Raise WorkspaceError if there are replaced objects."""
        if replaced := self.replaced_objects():
            raise WorkspaceError(REPLACED.format(", ".join(replaced)))


def _has_few_files(repository: Repository) -> bool:
    """True if the index of the checkout, which lists the files of its commit, is small."""
    try:
        return (repository.git_dir / "index").stat().st_size <= _SMALL_INDEX
    except OSError:
        return False
