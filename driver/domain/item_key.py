"""Which item something is about, in journal, events and leases."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ItemKey:
    """An item of a wave. `place` is its repository's top or its folder, `repo` what the item
    itself names, `content` the digest of everything that decides what its result is worth, `task`
    that of what was asked for, on whatever base it is built."""

    slug: str
    place: str
    repo: str | None
    content: str
    task: str

    @property
    def resource(self) -> str:
        """What a lease on the item is called."""
        return resource_of(self.place, self.slug)


def resource_of(place: str | None, slug: str) -> str:
    """What a lease on an item of one repository or folder is called."""
    return f"{place or ''}#{slug}"


def digest(*facts: object) -> str:
    """One name for a number of facts that JSON can hold."""
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
