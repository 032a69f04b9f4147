"""Scenarios that mostly wait, played beside each other; each test then asks for its own.

Not for scenarios that change what the whole process shares: its environment, folder or signals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

Key = TypeVar("Key")
Result = TypeVar("Result")
AT_ONCE = 4


def beside_each_other(
    play: Callable[[Path, Key], Result], keys: Iterable[Key], folder: Path, at_once: int = AT_ONCE
) -> Mapping[Key, Future[Result]]:
    """Play each of `keys` in a new folder of its own, a few at a time. All are over on return;
    `result()` of one answers, or raises what that one raised."""
    chosen = list(keys)
    folders = [folder / str(number) for number in range(len(chosen))]
    for one in folders:
        one.mkdir()
    with ThreadPoolExecutor(at_once) as pool:
        return {key: pool.submit(play, one, key) for one, key in zip(folders, chosen, strict=True)}


def selected(request: pytest.FixtureRequest, name: str) -> list[Any]:
    """The values of the parameter `name` for which this run has a test in the module."""
    found = (
        item.callspec.params
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.module is request.module
        and hasattr(item, "callspec")
    )
    return list(dict.fromkeys(params[name] for params in found if name in params))
