"""The publication of a repository's items, as frozen data."""

from __future__ import annotations

from driver.domain.results import ItemOutcome, TestRun
from state_store.values.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Shipment:
    """The publication of one repository's verified items.

    `commits` holds (slug, commit) of all shipped items, `trees` (slug, its tree). `error` is a word
    of the report's vocabulary and `detail` its sentence. With an error, no item of this repository
    counts as shipped. `push_error` is the kind of a refused push (`push_result.PushResult`), and
    `refusal` has all words of the remote. `kept` is the commit that `branch` then has in this
    repository only. `evicted` items were verified
    alone, but not in the batch. `batch_runs` holds (slug, test runs in the batch). `onto` is the
    parent commit of the batch. `integration` are all test runs on trees of several items,
    `integration_runs` the number of these trees.
    """

    repo: str
    branch: str | None = None
    commits: tuple[tuple[str, str], ...] = ()
    committed: bool = False
    pushed: bool = False
    files_count: int = 0
    error: str | None = None
    detail: str = ""
    warning: str | None = None
    kept: str | None = None
    evicted: tuple[ItemOutcome, ...] = ()
    batch_runs: tuple[tuple[str, tuple[TestRun, ...]], ...] = ()
    onto: str | None = None
    integration: tuple[TestRun, ...] = ()
    integration_runs: int = 0
    push_error: str | None = None
    refusal: str = ""
    trees: tuple[tuple[str, str], ...] = ()

    @property
    def tip(self) -> str | None:
        """The last commit of the batch."""
        return self.commits[-1][1] if self.commits else None
