"""Lazy dataclasses behave as those of the standard library, shape by shape."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from inspect import signature
from typing import Any

import pytest

from state_store.values import lazy_dataclass

Decorator = Callable[..., Any]
Shape = dict[str, Any]


def _shapes(decorator: Decorator) -> dict[str, type]:
    """Classes of every shape, made by a decorator."""

    @decorator(frozen=True, slots=True)
    class Point:
        """A frozen value."""

        x: int
        y: int = 2
        tags: tuple[str, ...] = ()
        seen: list[int] = dataclasses.field(default_factory=list, compare=False, repr=False)

    @decorator
    class Plain:
        """A value that changes."""

        x: int
        y: list[int] = dataclasses.field(default_factory=list)

        def __post_init__(self) -> None:
            self.z = self.x + 1

    @decorator(slots=True)
    class Open:
        """A value with slots that changes."""

        x: int = 1
        y: int = dataclasses.field(default=3, init=False)
        z: list[int] = dataclasses.field(default_factory=list, init=False)

    @decorator(frozen=True)
    class Base:
        """A frozen base with a `__dict__`."""

        a: int
        named: int = dataclasses.field(default=4, kw_only=True)

    @decorator(frozen=True)
    class Below(Base):
        """Its fields come after those of the base."""

        b: int = 5

    @decorator(eq=False)
    class ByIdentity:
        """A value that is equal to itself only."""

        a: int = 1

    @decorator(frozen=True, slots=True, kw_only=True)
    class Named:
        """Fields by name only."""

        b: int = 1
        a: int

    @decorator(frozen=True, slots=True, order=True)
    class Ordered:
        """A value with an order."""

        a: int
        b: int = 1

    @decorator(frozen=True)
    class Own:
        """A class with methods of its own."""

        a: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

        def __hash__(self) -> int:
            return 7

    @decorator(frozen=True, slots=True)
    class Empty:
        """No field at all."""

    return {name: made for name, made in locals().items() if isinstance(made, type)}


REAL, LAZY = _shapes(dataclasses.dataclass), _shapes(lazy_dataclass.dataclass)
CALLS: tuple[tuple[str, tuple[Any, ...], Shape], ...] = (
    ("Point", (1,), {}),
    ("Point", (1, 5), {"tags": ("a",), "seen": [1]}),
    ("Point", (), {}),
    ("Point", (1, 2, (), [], 5), {}),
    ("Point", (1,), {"other": 1}),
    ("Plain", (1,), {}),
    ("Plain", (1, [2]), {}),
    ("Open", (), {}),
    ("Open", (2, 3), {}),
    ("Base", (1,), {"named": 2}),
    ("Base", (1, 2), {}),
    ("Below", (1, 2), {"named": 3}),
    ("ByIdentity", (), {}),
    ("Named", (), {"a": 1}),
    ("Named", (1,), {}),
    ("Ordered", (1, 2), {}),
    ("Own", (1,), {}),
    ("Empty", (), {}),
)


def _facts(made: type[Any], values: tuple[Any, ...], named: Shape) -> dict[str, Any]:
    """All that can be told about a class and a value of it."""
    try:
        value = made(*values, **named)
    except TypeError as error:
        return {"error": str(error)}
    same, names = made(*values, **named), [one.name for one in dataclasses.fields(made)]
    facts: dict[str, Any] = {
        "fields": {name: getattr(value, name) for name in names},
        "all": dataclasses.asdict(value),
        "repr": repr(value),
        "equal": (value == same, value != same, value == 1),
        "kept": vars(value) if hasattr(value, "__dict__") else None,
        "match": getattr(made, "__match_args__", None),
        "slots": getattr(made, "__slots__", None),
        "copies": (repr(copy.copy(value)), repr(copy.deepcopy(value))),
    }
    for word, change in (("set", lambda: setattr(value, [*names, "a"][0], 9)),
                         ("more", lambda: setattr(value, "other", 9)),
                         ("delete", lambda: delattr(value, [*names, "a"][0])),
                         ("hash", lambda: hash(value) == hash(same))):  # fmt: skip
        try:
            facts[word] = change()
        except (AttributeError, TypeError):  # Python 3.11 has the wrong one for slots
            facts[word] = "refused"
    facts["after"] = {name: getattr(value, name, None) for name in names}
    return facts


@pytest.mark.parametrize(("name", "values", "named"), CALLS)
def test_a_lazy_dataclass_is_like_a_usual_one(
    name: str, values: tuple[Any, ...], named: Shape
) -> None:
    for _ in range(2):  # at its first use, and later
        assert _facts(LAZY[name], values, named) == _facts(REAL[name], values, named)


def test_replace_makes_a_changed_copy_with_defaults_of_its_own() -> None:
    point = LAZY["Point"](1, seen=[1])
    changed = lazy_dataclass.replace(point, y=7)
    assert (changed.x, changed.y, changed.seen) == (1, 7, [1])
    assert LAZY["Point"](1).seen is not LAZY["Point"](1).seen
    assert {point: 1}[LAZY["Point"](1)] == 1


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Kept:
    """A value at the top of a module, so that it can be pickled."""

    a: int
    b: tuple[str, ...] = ("x",)


def test_a_frozen_value_with_slots_is_pickled_as_a_whole() -> None:
    kept = Kept(3)
    assert pickle.loads(pickle.dumps(kept)) == kept


def test_a_class_is_not_written_before_its_first_use() -> None:
    made = _shapes(lazy_dataclass.dataclass)["Point"]
    first = vars(made)["__init__"]
    assert "x" not in first.__code__.co_varnames
    made(1)
    assert "x" in vars(made)["__init__"].__code__.co_varnames


def test_a_class_that_was_never_used_tells_its_parameters() -> None:
    theirs = _shapes(dataclasses.dataclass)
    for name, ours in _shapes(lazy_dataclass.dataclass).items():
        shown = [str(one).partition(":")[0] for one in signature(ours).parameters.values()]
        known = [str(one).partition(":")[0] for one in signature(theirs[name]).parameters.values()]
        assert [one.partition("=")[0] for one in shown] == [one.partition("=")[0] for one in known]


def test_a_class_with_its_own_init_tells_that_one() -> None:
    @lazy_dataclass.dataclass
    class Given:
        x: int

    class Below(Given):
        def __init__(self, y: int, *, z: int) -> None:
            super().__init__(y + z)

    assert list(signature(Below).parameters) == ["y", "z"]
    assert list(signature(Given).parameters) == ["x"]
