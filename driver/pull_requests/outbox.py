"""The outbox of pull requests, in <state>/pull_requests: one file for each pushed batch.

A file is named by the batch's last commit. A request is written down before the forge is asked, so
that the next run makes it if this one fails or dies; a request that was made stays on file, so that
it is not made twice.
"""

from __future__ import annotations

from pathlib import Path

from driver.pull_requests.body import PullRequest
from state_store.documents.errors import TidegateError
from state_store.documents.files import read_json, write_json_atomic
from state_store.values.lazy_dataclass import asdict, dataclass, fields

FOLDER = "pull_requests"
MAX_TRIES = 5
_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Proposal:
    """A request for a pull request.

    `repo` is the checkout; `name` is the repository's name for `gh`, "" if its address does not
    tell; `owner` is the owner of the fork that has `head`, "" if it is the repository itself; with
    `base` "" the forge chooses.
    """

    repo: str
    wave_id: str
    head: str
    commit: str
    base: str
    title: str
    body: str
    name: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """A request on file, the pull request `made` for it, and the number of `tries`."""

    proposal: Proposal
    made: PullRequest | None = None
    tries: int = 0

    @property
    def given_up(self) -> bool:
        """True after the last try: a forge refuses a branch for ever once it was merged and
        removed."""
        return self.made is None and self.tries >= MAX_TRIES


def save(state_dir: Path, entry: OutboxEntry) -> None:
    """Write an entry. Raises CannotRunError."""
    proposal = asdict(entry.proposal)
    if entry.made is not None:
        proposal["body"] = ""  # the forge has it
    made = asdict(entry.made) if entry.made else None
    record = {"schema": _SCHEMA, "proposal": proposal, "made": made, "tries": entry.tries}
    write_json_atomic(file_of(state_dir, entry.proposal.commit), record)


def entry_of(state_dir: Path, commit: str) -> OutboxEntry | None:
    """The entry of a batch by its last commit; None if there is none that can be read."""
    return _read(file_of(state_dir, commit))


def all_open(state_dir: Path) -> list[OutboxEntry]:
    """The entries that are still to be made, those of one wave together."""
    found = filter(None, map(_read, sorted((state_dir / FOLDER).glob("*.json"))))
    left = (one for one in found if one.made is None and not one.given_up)
    return sorted(left, key=lambda one: one.proposal.wave_id)


def file_of(state_dir: Path, commit: str) -> Path:
    """The file of an entry."""
    return state_dir / FOLDER / f"{commit}.json"


def _read(path: Path) -> OutboxEntry | None:
    try:
        record = read_json(path)
        asked = record["proposal"]
        texts = all(isinstance(asked[field.name], str) for field in fields(Proposal))
        if record["schema"] != _SCHEMA or not texts:
            return None
        made = PullRequest(**record["made"]) if record["made"] else None
        return OutboxEntry(Proposal(**asked), made, int(record["tries"]))
    except (TidegateError, KeyError, TypeError, ValueError):
        return None
