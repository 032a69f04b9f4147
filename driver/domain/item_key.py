"""The key of an item in journal, events and leases."""

from __future__ import annotations

import hashlib
import json

from state_store.values.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ItemKey:
    """Identifies an item of a wave. `location` is the top folder of its repository, or its work
    folder in place. `repo` is the repository that the item names. `content_key` is the digest of
    every input of its result. `task_key` is the digest of its request, on any base."""

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
    """The SHA-256 of facts that JSON can hold."""
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
