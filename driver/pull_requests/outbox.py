"""Pull requests that are to be made, and those that were, in <state>/pull_requests.

One file for each shipment, named by its last commit: what is asked for is written down before
anyone is asked, so that a run which fails or dies there leaves it to the next one. What is made
stays noted, so that it is not made twice.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from driver.pull_requests.body import PullRequest
from state_store.documents.errors import TidegateError
from state_store.documents.files import read_json, write_json_atomic

FOLDER = "pull_requests"
MAX_TRIES = 5
_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Proposal:
    """One pull request as it is asked for. `repo` is the checkout; `name` is what `gh` calls the
    repository, "" where its address does not tell; `owner` is whose fork `head` is in, "" where it
    is in the repository itself; `base` is "" where the forge is to choose."""

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
    """A proposal on file, and what was made of it so far, in so many `tries`."""

    proposal: Proposal
    made: PullRequest | None = None
    tries: int = 0

    @property
    def given_up(self) -> bool:
        """Whether nobody is asked any more: a branch that somebody merged and removed is refused
        for ever."""
        return self.made is None and self.tries >= MAX_TRIES


def note(state_dir: Path, noted: OutboxEntry) -> None:
    """Keep it, for good. Raises CannotRunError."""
    proposal = asdict(noted.proposal)
    if noted.made is not None:
        proposal["body"] = ""  # the forge has it
    made = asdict(noted.made) if noted.made else None
    told = {"schema": _SCHEMA, "proposal": proposal, "made": made, "tries": noted.tries}
    write_json_atomic(_path(state_dir, noted.proposal.commit), told)


def noted(state_dir: Path, commit: str) -> OutboxEntry | None:
    """What is on file of a shipment; None where nothing is, or nothing that can be read."""
    return _read(_path(state_dir, commit))


def all_open(state_dir: Path) -> list[OutboxEntry]:
    """What is still to be made, those of one wave together."""
    found = filter(None, map(_read, sorted((state_dir / FOLDER).glob("*.json"))))
    left = (one for one in found if one.made is None and not one.given_up)
    return sorted(left, key=lambda one: one.proposal.wave_id)


def file_of(state_dir: Path, proposal: Proposal) -> Path:
    """Where a proposal is kept."""
    return _path(state_dir, proposal.commit)


def _path(state_dir: Path, commit: str) -> Path:
    return state_dir / FOLDER / f"{commit}.json"


def _read(path: Path) -> OutboxEntry | None:
    try:
        told = read_json(path)
        if told["schema"] != _SCHEMA:
            return None
        made = PullRequest(**told["made"]) if told["made"] else None
        return OutboxEntry(_proposal(told["proposal"]), made, int(told["tries"]))
    except (TidegateError, KeyError, TypeError, ValueError):
        return None


def _proposal(told: dict[str, Any]) -> Proposal:
    if not all(isinstance(told[field.name], str) for field in fields(Proposal)):
        raise TypeError(told)
    return Proposal(**told)
