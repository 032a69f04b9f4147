"""The fewest items whose going breaks up every group that cannot be together. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from driver.blame import Items

_EXACT_MEMBERS = 12  # of more, every choice is too many to try


def smallest_guilty(cores: Sequence[Items]) -> Items:
    """The fewest items without which none of `cores` is whole, of equals the last in order.

    Exact where not too many cores hang together, else whoever is in most of them goes first.
    """
    parts = _parts(cores)
    return frozenset[int]().union(*map(_exact_or_greedy, parts))


def _parts(cores: Iterable[Items]) -> list[list[Items]]:
    """The cores in groups that share no item."""
    parts: list[list[Items]] = []
    for core in cores:
        joined = [part for part in parts if any(core & other for other in part)]
        parts = [part for part in parts if part not in joined]
        parts.append([core, *itertools.chain.from_iterable(joined)])
    return parts


def _exact_or_greedy(cores: Sequence[Items]) -> Items:
    members = sorted(frozenset[int]().union(*cores), reverse=True)
    if len(members) > _EXACT_MEMBERS:
        return _greedy(cores)
    sizes = range(1, len(members) + 1)
    sets = (frozenset(s) for size in sizes for s in itertools.combinations(members, size))
    return next(chosen for chosen in sets if all(chosen & core for core in cores))


def _greedy(cores: Sequence[Items]) -> Items:
    chosen = frozenset[int]()
    while left := [core for core in cores if not core & chosen]:
        members = sorted(frozenset[int]().union(*left))
        chosen |= {max(members, key=lambda item: (sum(item in core for core in left), item))}
    return chosen
