"""Finds what machines that share a store left there and on the remote for each other.

A row goes before its ref, so what a killed clean-up leaves is a ref without a row, which the next
one finds. Nothing of an item that a run holds is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from driver.git.push_result import PushResult
from driver.git.remote import find_remote, refs_on
from driver.handover.remote_refs import put_refs, root_of
from driver.maintenance.findings import Found, Scope
from state_store.coordination import current_holder
from state_store.database.interface import Store, StoreTransaction
from state_store.documents.errors import CannotRunError, TidegateError
from state_store.documents.failpoints import failpoint
from state_store.documents.journal import safe_slug
from state_store.place import has_begun, open_store
from state_store.sql.addresses import address_of
from state_store.write_api import STATE_DB_FILENAME

_AT_ONCE = 100  # refs in a push, and outputs in a transaction


def leftovers_of_machines(scope: Scope) -> Iterator[Found]:
    """Work that nobody went on with, refs that no row names, and old outputs."""
    database = scope.state_dir / STATE_DB_FILENAME
    try:
        if address_of(scope.state_dir) is None or not has_begun(database):
            return  # a file is of one machine
        with open_store(database) as store:
            yield from _old_work(scope, store)
            yield from _spare_refs(scope, store)
            yield from _old_outputs(scope, store)
    except TidegateError as trouble:
        yield Found("unshipped work", str(database), str(trouble))


def _old_work(scope: Scope, store: Store) -> Iterator[Found]:
    """Rows that are old, of items that no run holds."""
    before = store.clock.now().wall_s - scope.older_than_s
    for row in store.read_unshipped(lambda book: book.older(before)) or ():
        if current_holder(store, f"#{row.slug}") is None:
            why = f"nobody went on with it, from {row.host}: {row.place.ref or row.path}"
            yield Found("unshipped work", row.slug, why, partial(_drop, store, row.slug, before))


def _drop(store: Store, slug: str, before: float) -> None:
    def job(transaction: StoreTransaction) -> int:
        row = transaction.lease_row(f"#{slug}")
        if row is not None and row.held_at(transaction.now):
            raise CannotRunError(f"{slug} is being worked on")
        transaction.unshipped.drop_older(slug, before)
        return 0

    store.joined(job)
    failpoint("handover.row_dropped")


def _spare_refs(scope: Scope, store: Store) -> Iterator[Found]:
    """Refs that no row names. A run pushes a ref and then writes its row, and holds the lease of
    the item meanwhile; so rows and leases are read after the refs."""
    repo, root = scope.repository, f"{root_of(scope.schema)}/" if scope.schema else ""
    remote = find_remote(repo, scope.environ, scope.remote) if repo and root else None
    if repo is None or remote is None:
        return
    there = refs_on(repo.git_dir, scope.environ, remote, f"{root}*")
    if isinstance(there, PushResult):
        yield Found("refs", f"{root}* on {remote.name}", there.reason)
        return
    ours = [ref for ref in sorted(there) if ref.startswith(root)]
    named = store.read_unshipped(lambda book: book.refs()) or set()
    if not (spare := [ref for ref in ours if ref not in named]):
        return
    slugs = {safe_slug(str(item["slug"])): str(item["slug"])
             for item in store.items() if item.get("slug")}  # fmt: skip
    parts = {ref: ref.removeprefix(root).partition("/")[0] for ref in spare}
    spare = [
        ref
        for ref, part in parts.items()
        if current_holder(store, f"#{slugs.get(part, part)}") is None
    ]
    delete = partial(put_refs, repo.git_dir, scope.environ, remote)
    for at in range(0, len(spare), _AT_ONCE):
        push = _OnePush(delete, spare[at : at + _AT_ONCE])
        for ref in push.refs:
            yield Found("ref", f"{ref} on {remote.name}", "its work is not needed", push.of(ref))


class _OnePush:
    """Deletes several refs at once, when the first of them is to go."""

    def __init__(
        self, delete: Callable[[Mapping[str, str]], dict[str, str]], refs: Sequence[str]
    ) -> None:
        self.refs, self._delete = refs, delete
        self._failed: dict[str, str] | None = None

    def of(self, ref: str) -> Callable[[], None]:
        """Delete one of the refs. Raises CannotRunError."""

        def removed() -> None:
            if self._failed is None:
                self._failed = self._delete(dict.fromkeys(self.refs, ""))
            if ref in self._failed:
                raise CannotRunError(self._failed[ref])

        return removed


def _old_outputs(scope: Scope, store: Store) -> Iterator[Found]:
    before = store.clock.now().wall_s - scope.older_than_s
    if not (count := store.read_unshipped(lambda book: book.count_of_old_outputs(before))):
        return

    def removed() -> None:
        while store.joined(lambda one: one.unshipped.drop_old_outputs(before, _AT_ONCE)):
            pass

    yield Found("outputs", f"{count} files of machines in the database", "", removed)
