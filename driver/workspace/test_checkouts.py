"""Test checkouts: made and set up on a tree, restored between uses. No agent sees one. A checkout
shows other trees only if they need the same set-up. After each use, every file that the set-up did
not leave is removed. Stat data that cannot be reset show the differences. A checkout whose set-up
products changed is made again."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from driver.filesystem.clock import TICK_LIMIT_S
from driver.filesystem.tree import Signature, remove_tree, signature_at
from driver.git.private_git import PrivateGit
from driver.preparation.index_stats import differing
from driver.preparation.kept_copies import KeptCopy, LaidCopy
from driver.preparation.kept_places import identity_of
from driver.preparation.setup_reads import SetupKey
from driver.preparation.stat_listing import StatListing
from driver.preparation.warm_places import WarmPlaces
from driver.tree_files.index_file import noted_in
from driver.workspace.repository_context import TestCheckout, has_rules
from state_store.documents.errors import CannotRunError
from state_store.values.lazy_dataclass import dataclass, field

_OTHER_SETUPS = 3  # idle checkouts beyond the size of the pool, so that set-ups are not made twice
_MAX_SETUPS = 3
_MOST_COMPARED = 500  # their names fit on a command line


@dataclass
class TreeCheckout(TestCheckout):
    """A folder with exactly one git tree and the products of the set-up. `products` are the files
    that the set-up made on the tree `made_for`, `seen` all files of the current tree, as `listing`
    lists them. The folder `beside` has more of its products. The copied paths `kept` are in
    neither. `is_new` is true until the first use if nothing ran in it yet. `warm` keeps the folder
    for a later run."""

    index: Path
    git: PrivateGit
    listing: StatListing
    products: Mapping[str, Signature]
    seen: Mapping[str, Signature]
    git_dir: Mapping[str, Signature] = field(default_factory=dict)
    shown: str = ""
    made_for: str = ""
    beside: Path | None = None
    kept: LaidCopy | None = None
    remove: Callable[[Path], None] = remove_tree
    warm: WarmPlaces | None = None
    is_new: bool = False
    identity: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.identity = identity_of(self.path)
        by_content = self.listing.by_content
        self._beside = StatListing(self.beside, by_content=by_content) if self.beside else None
        self.products_beside = self._beside.look() if self._beside else {}

    @property
    def probe(self) -> Path:
        """A file next to the index, touched to read the time of the file system."""
        return self.index.with_suffix(".tick")

    @property
    def is_warm(self) -> bool:
        """True for the folder of an earlier run."""
        return self.warm is not None and self.warm.is_warm(self.path)

    def tampered(self) -> tuple[str, ...]:
        suspects = self.touched({})
        return self.git.tampered(self.path, self.index, suspects) if suspects else ()

    def touched(self, written: Mapping[str, Signature]) -> tuple[str, ...]:
        products, now = self.products, None
        if self.listing.is_large or self.listing.by_content:
            with contextlib.suppress(OSError):  # a folder that may not be read: look at each path
                now = self.listing.look()

        def now_at(path: str) -> Signature:
            if now is not None:
                return now.get(path, ())
            return signature_at(f"{self.path}/{path}") or ()

        return tuple(
            path
            for path, before in {**self.seen, **written}.items()
            # A set-up product that is also in the tree belongs to the tree.
            if products.get(path) != before
            and len(before) > 1
            and now_at(path)[: len(before)] != before
        )

    def show(self, tree: str) -> bool:
        """Switch to exactly `tree`; False if the checkout is spoiled and must be made again."""
        if identity_of(self.path) != self.identity:
            return False  # a test replaced the folder; it is not ours to restore
        try:
            back = set() if self.is_new else self._put_back()
        except OSError:  # too deep, unreadable, busy: use a fresh checkout
            return False
        if back is None:
            return False
        if tree == self.shown and not back & self.seen.keys():
            was_new, self.is_new = self.is_new, False
            is_proven = self.warm is not None and self.warm.is_proven(self.path)
            return not was_new or is_proven or self._is_as_written({})
        right = {} if self.is_new or not self.shown else self.seen
        self.is_new, self.shown = False, ""
        before = _attributes(self.seen)
        self._switch(tree)
        if _attributes(self.seen) != before:
            # New attributes can change how unchanged files are written: write all of them again.
            self.index.unlink()
            self._switch(tree)
            right = {}
        self.shown = tree
        return self._is_as_written(right)

    def settle(self) -> None:
        """Wait until a new change gets a later time than any seen file, so that no change is
        missed. File systems use a clock that stands still for some milliseconds."""
        if os.name == "nt":  # no change time there, and the clock has a tick of 100 ns
            return
        newest = max((s[3] for s in self.seen.values() if not _is_folder(s)), default=0)
        newest = max(newest, self.kept.newest_ns if self.kept else 0)
        deadline = time.monotonic() + TICK_LIMIT_S
        self.probe.touch()
        while self.probe.stat().st_ctime_ns <= newest and time.monotonic() < deadline:
            time.sleep(0.001)
            os.utime(self.probe)

    def discard(self, *, is_spoiled: bool = False) -> None:
        """Remove the checkout, or keep it for a later run. `gc` removes the rest later; a new
        checkout has a new name."""
        is_kept = not is_spoiled and self.warm is not None and self.warm.keep(self.path)
        for folder in (None if is_kept else self.path, self.beside):
            with contextlib.suppress(OSError):
                if folder is not None:
                    self.remove(folder)
        with contextlib.suppress(OSError):
            if self.kept is not None:
                self.kept.discard()
        self.index.unlink(missing_ok=True)
        self.probe.unlink(missing_ok=True)

    def retire(self) -> None:
        """Discard the checkout, but keep its copies for another one if they can be put back."""
        with contextlib.suppress(OSError):
            if self.kept and identity_of(self.path) == self.identity and self.kept.put_back():
                self.kept.give_back()
        self.discard()

    def _is_as_written(self, right: Mapping[str, Signature]) -> bool:
        """True if each seen file is as git noted it when it wrote it, and nothing is there beside
        them. Another process may have written between git and the listing, and what is listed
        counts as right from then on. The signatures `right` are right already."""
        try:
            noted = noted_in(self.index, self.git.object_format)
        except ValueError:  # a format of a later git
            return not self.git.tampered(self.path, self.index)
        wrong = differing(self.seen, right, noted, self.products)
        if any(path not in noted or path not in self.seen for path in wrong):
            return False
        # Some file systems change the times of a file after git has noted them.
        suspects = wrong if len(wrong) < _MOST_COMPARED else ()
        return not wrong or not self.git.tampered(self.path, self.index, suspects)

    def _switch(self, tree: str) -> None:
        self.git.switch(tree, self.path, self.index)
        self.seen = self.listing.look()

    def _put_back(self) -> set[str] | None:
        """Undo the changes of the last test; returns the paths that differed, None if that is
        impossible."""
        if self._beside and self._beside.look() != self.products_beside:
            return None
        if self.kept and not self.kept.put_back():
            return None
        now = self.listing.look()
        if any(now.get(path) != before for path, before in self.products.items()):
            return None
        if now == self.seen:
            return set()
        touched = {path for path in now if now[path] != self.seen.get(path)}
        for path in sorted(touched):
            before, whole = self.seen.get(path), self.path / path
            if before and _is_folder(before) and _is_folder(now[path]):
                whole.chmod(stat.S_IMODE(before[0]))
            else:  # new or changed; the switch writes tracked files again
                remove_tree(whole)
        return touched | (self.seen.keys() - now.keys())


class TestCheckouts:
    """A pool of checkouts, at most `size` of them in use, each lent to one test at a time. Safe to
    use from many threads. `make` makes a checkout of a tree by its number, `show_git` renews its
    `.git`, and trees with the same `key` share set-ups."""

    __test__ = False  # pytest collects classes by this name otherwise

    def __init__(
        self,
        size: int,
        make: Callable[[int, str], TreeCheckout],
        show_git: Callable[[TreeCheckout], None],
        key: Callable[[str], SetupKey] = lambda _: frozenset(),
    ) -> None:
        self._make = make
        self._key = key
        self._show_git = show_git
        self.size = size
        self._lent = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: list[TreeCheckout] = []
        self._made = 0
        self._closed = False

    @contextlib.contextmanager
    def checkout(self, tree: str, *, fresh: bool = False) -> Iterator[TreeCheckout]:
        """A checkout of `tree`; waits while all are in use. With `fresh`, it was never used before,
        but its copied folders may come from another checkout, with no file changed. Raises
        WorkspaceError if a new checkout is needed and its set-up fails."""
        with self._lent:
            if fresh:
                self._free_copies(tree)
            checkout = self._idle_one(tree) if not fresh else None
            if checkout is None or not self._shows(checkout, tree):
                checkout = self._made_new(tree)
            try:
                yield checkout
            finally:
                self._keep(checkout)

    def close(self) -> None:
        """Remove all checkouts. A checkout in use is removed after its use."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for checkout in idle:
            checkout.discard()

    def _free_copies(self, tree: str) -> None:
        """Give up an idle checkout that has copies: to move them is cheaper than to make new
        ones."""
        with self._lock:
            may_move = self._idle and isinstance(self._idle[0].kept, KeptCopy)
        if may_move and (one := self._idle_one(tree)):
            one.retire()

    def _keep(self, checkout: TreeCheckout) -> None:
        """Takes a checkout back, and discards the checkouts that are too many. Those that were not
        used for the longest time go first."""
        with self._lock:
            if self._closed:
                surplus = [checkout]
            else:
                self._idle.append(checkout)
                own = self._key(checkout.made_for)
                alike = [one for one in self._idle if self._key(one.made_for) == own]
                surplus = alike[: max(0, len(alike) - self.size)]
                most = self.size + _OTHER_SETUPS
                surplus = surplus or self._idle[: max(0, len(self._idle) - most)]
                gone = {id(one) for one in surplus}
                self._idle = [one for one in self._idle if id(one) not in gone]
        for one in surplus:
            one.discard()

    def _idle_one(self, tree: str) -> TreeCheckout | None:
        """Takes an idle checkout with the set-up of `tree`, preferably one that shows it
        already."""
        wanted = self._key(tree)
        with self._lock:
            fits = [at for at, c in enumerate(self._idle) if self._key(c.made_for) == wanted]
            same = [at for at in fits if self._idle[at].shown == tree]
            return self._idle.pop((same or fits)[-1]) if fits else None

    def _made_new(self, tree: str) -> TreeCheckout:
        # A set-up may show that the tree needs another: it used files that the tree changed.
        for _ in range(_MAX_SETUPS):
            with self._lock:
                self._made += 1
                number = self._made
            fresh = self._make(number, tree)
            was_warm = fresh.is_warm  # a discarded one is not
            if self._key(fresh.made_for) != self._key(tree):
                self._keep(fresh)
            elif self._shows(fresh, tree):
                return fresh
            elif was_warm:  # what still writes there is of an earlier run
                return self._made_new(tree)
            else:
                whose = "the set-up" if fresh.made_for else "another process"
                raise CannotRunError(
                    f"{whose} still changes files in {fresh.path} after its end: "
                    "end its background processes"
                )
        raise CannotRunError(f"each set-up for {tree} used other files than the one before")

    def _shows(self, checkout: TreeCheckout, tree: str) -> bool:
        """Make a checkout show `tree`; on failure it is discarded."""
        shown = False
        try:
            shown = checkout.show(tree)
            if shown:
                self._show_git(checkout)
                checkout.settle()
        finally:
            if not shown:
                checkout.discard(is_spoiled=True)
        return shown


def _is_folder(signature: Signature) -> bool:
    return stat.S_ISDIR(signature[0])


def _attributes(seen: Mapping[str, Signature]) -> dict[str, Signature]:
    return {path: s for path, s in seen.items() if has_rules(path)}
