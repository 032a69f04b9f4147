"""Scenarios that mostly wait, played beside each other; each test then asks for its own.

Not for scenarios that change what the whole process shares: its environment, folder or signals.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import pytest

Key = TypeVar("Key")
Result = TypeVar("Result")
Played = Mapping[str, Future[None]]
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


Play = Callable[..., None]


def beside_on(place: Callable[[Path], AbstractContextManager[Any]]) -> Callable[[Play], Play]:
    """Marks a test to be played beside all others of its module that are marked so. Its first
    parameter is what `place` makes of a new folder, all others are parametrized; it has no
    fixtures."""

    def mark(play: Play) -> Play:
        def test(request: pytest.FixtureRequest, played: Played, **_: Any) -> None:
            played[request.node.nodeid].result()

        def in_place(folder: Path, values: Mapping[str, Any]) -> None:
            with place(folder) as made:
                play(made, **values)

        _, *values = inspect.signature(play).parameters
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        asked = [inspect.Parameter(name, kind) for name in ("request", "played", *values)]
        test.__name__, test.__doc__ = play.__name__, play.__doc__
        test.__dict__.update(__signature__=inspect.Signature(asked), in_place=in_place)
        return test

    return mark


beside = beside_on(nullcontext)


def play_marked(request: pytest.FixtureRequest, folder: Path) -> Played:
    """Play those of the module's tests that are marked `beside`; by the tests' ids."""
    found = {item.nodeid: item for item in _tests_beside(request) if hasattr(item.obj, "in_place")}

    def play(folder: Path, name: str) -> None:
        found[name].obj.in_place(folder, _params(found[name]))

    return beside_each_other(play, found, folder)


def _tests_beside(request: pytest.FixtureRequest) -> Iterator[pytest.Function]:
    for item in request.session.items:
        if not isinstance(item, pytest.Function) or _is_skipped(item):
            continue
        if item.module is request.module:
            yield item


def _is_skipped(item: pytest.Function) -> bool:
    """By a mark; all conditions here are values, none is a text."""
    marks = [*item.iter_markers("skip"), *item.iter_markers("skipif")]
    return any(mark.name == "skip" or any(mark.args) for mark in marks)


def _params(item: pytest.Function) -> Mapping[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}
