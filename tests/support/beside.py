"""Scenarios that mostly wait, played beside each other; each test then asks for its own.

Not for scenarios that change what the whole process shares: its environment, folder or signals.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    params = (_params(item) for item in _tests_beside(request))
    return list(dict.fromkeys(found[name] for found in params if name in found))


def beside(play: Callable[..., None]) -> Callable[..., None]:
    """A test that is played beside all others of its module that are marked so; it gets a new
    folder and the values of its parameters, and no fixtures."""

    def test(request: pytest.FixtureRequest, played: Mapping[str, Future[None]], **_: Any) -> None:
        played[request.node.nodeid].result()

    asked = inspect.signature(play).parameters
    names = ["request", "played", *(name for name in asked if name != "folder")]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    test.__dict__.update(
        __signature__=inspect.Signature([inspect.Parameter(name, kind) for name in names]),
        __name__=play.__name__,
        __doc__=play.__doc__,
        play=play,
    )
    return test


def play_marked(request: pytest.FixtureRequest, folder: Path) -> Mapping[str, Future[None]]:
    """Play those of the module's tests that are marked `beside`; by the tests' ids."""
    found = {item.nodeid: item for item in _tests_beside(request) if hasattr(item.obj, "play")}

    def play(folder: Path, name: str) -> None:
        found[name].obj.play(folder=folder, **_params(found[name]))

    return beside_each_other(play, found, folder)


def _tests_beside(request: pytest.FixtureRequest) -> Iterator[pytest.Function]:
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.module is request.module:
            yield item


def _params(item: pytest.Function) -> Mapping[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}
