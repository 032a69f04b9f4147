"""The sample of a long table that the default run takes; all other cases are marked `more`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest


def leave_to_more(items: Iterable[pytest.Item]) -> None:
    """Mark with `more` each case of a test marked `sampled` that its sample does not have. What is
    marked `sweep` is only that."""
    tables: dict[str, list[pytest.Function]] = {}
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if "sweep" in marks:
            item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "more"]
        elif isinstance(item, pytest.Function) and "sampled" in marks:
            tables.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tables.values():
        kept = _sample(cases)
        for number, case in enumerate(cases):
            if number not in kept:
                case.add_marker("more")


def _sample(cases: Sequence[pytest.Function]) -> set[int]:
    """`sampled(3)`: three cases spread evenly over the table, the first and the last among them.
    `sampled(each="kind")`: the first case for each value of the parameter `kind`."""
    marker = cases[0].get_closest_marker("sampled")
    assert marker is not None
    if each := marker.kwargs.get("each"):
        values = [case.callspec.params[each] for case in cases]
        return {values.index(value) for value in values}
    (count,) = marker.args
    last = len(cases) - 1
    return {round(number * last / max(count - 1, 1)) for number in range(count)}
