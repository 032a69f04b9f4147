"""The scope of a clean-up, and the things that it finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from driver.git.private_git import Repository
from driver.preparation.kept_places import Limits
from state_store.values.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a clean-up. `root` is the cache folder of `repository`; both are None without a
    repository. `older_than_s` applies to things of an unknown owner, `places` to kept places.
    `remote` is the remote that is asked for, and `schema` the name of the project in it."""

    state_dir: Path
    repository: Repository | None
    root: Path | None
    environ: Mapping[str, str]
    older_than_s: float
    places: Limits
    dry: bool = False
    remote: str | None = None
    schema: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A thing that Tidegate made. Without `remove` it stays."""

    kind: str
    name: str
    why: str
    remove: Callable[[], object] | None = None
