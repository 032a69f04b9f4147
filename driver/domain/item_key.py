"""The key of one item in journal, events and leases."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ItemKey:
    """Identifies an item of a wave.

    `location` is the top of its repository, or its folder in place; `repo` the repository that the
    item itself names. `content_key` digests everything that decides what a result is worth,
    `task_key` what was asked for, on any base.
    """

    slug: str
    location: str
    repo: str | None
    content_key: str
    task_key: str

    @property
    def resource(self) -> str:
        """The name of the lease on this item."""
        return resource_of(self.location, self.slug)


def resource_of(location: str | None, slug: str) -> str:
    """The name of the lease on an item of one repository or folder."""
    return f"{location or ''}#{slug}"


def digest(*facts: object) -> str:
    """A SHA-256 name for facts that JSON can hold."""
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
