"""Dataclasses that write their `__init__` at its first use. All other methods need no new code.

`dataclasses.dataclass` compiles up to nine methods for each class, which takes most of the time of
an import: a millisecond for each class, and most classes are not used in most runs. This decorator
takes a fifteenth of it. The result behaves in the same way: fields, defaults, slots, comparison,
hash, `fields`, `replace` and `asdict`. `dataclasses` finds the fields, and makes ordered classes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, Field, FrozenInstanceError, asdict, field, fields, replace
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["FrozenInstanceError", "asdict", "dataclass", "field", "fields", "replace"]


def _dataclass(cls: type | None = None, /, **options: Any) -> Any:
    """Makes a dataclass; takes `frozen`, `slots`, `eq`, `order` and `kw_only`."""
    if cls is None:
        return lambda undecorated: _dataclass(undecorated, **options)
    if options.get("order"):
        return dataclasses.dataclass(**options)(cls)
    own, frozen = dict(cls.__dict__), bool(options.pop("frozen", False))
    compared = options.pop("eq", True)
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, **options)(cls)
    if "__init__" not in own:
        made.__init__ = _first_init(made, frozen)
        made.__signature__ = _Signature()
    if "__repr__" not in own:
        made.__repr__ = _represented
    if compared:
        _compare(made, own, frozen)
    if frozen:
        _freeze(made)
    return made


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass


def _first_init(made: Any, frozen: bool) -> Any:
    """The `__init__` of a class until it is called; it then puts the real one in its place."""

    def write() -> None:
        made.__init__ = _init(made, frozen)

    def __init__(self: Any, *values: Any, **named: Any) -> None:
        write()
        made.__init__(self, *values, **named)

    __init__.write = write  # type: ignore[attr-defined]
    return __init__


class _Signature:
    """Tells `inspect` the parameters of a class, whose `__init__` may not be written yet."""

    def __get__(self, _: Any, owner: Any) -> Any:
        import inspect  # noqa: PLC0415 - few ask, and it takes longer than all of this module

        if (write := getattr(owner.__init__, "write", None)) is not None:
            write()
        _, *parameters = inspect.signature(owner.__init__).parameters.values()
        return inspect.Signature(parameters)


def _init(made: Any, frozen: bool) -> Any:
    """The `__init__` of a class, as `dataclasses` would write it."""
    known: dict[str, Any] = {"_set": object.__setattr__}
    positional, named, body = list[str](), list[str](), list[str]()
    for one in fields(made):
        value = f"_of_{one.name}"
        if one.init:
            (named if one.kw_only else positional).append(_parameter(one, known))
            is_made = one.default_factory is not MISSING
            given = f"{value}() if {one.name} is _missing else {one.name}" if is_made else one.name
        elif one.default_factory is not MISSING:
            known[value], given = one.default_factory, f"{value}()"
        elif one.default is not MISSING:
            known[value], given = one.default, value
        else:
            continue
        # The class's own `__setattr__` refuses every name of a frozen class.
        setting = f"_set(self, {one.name!r}, {given})" if frozen else f"self.{one.name} = {given}"
        body.append(f" {setting}")
    if hasattr(made, "__post_init__"):
        body.append(" self.__post_init__()")
    head = ", ".join(["self", *positional, *(["*", *named] if named else [])])
    known["_missing"] = MISSING
    exec("\n".join([f"def __init__({head}):", *(body or [" pass"])]), known)
    init = known["__init__"]
    init.__qualname__, init.__module__ = f"{made.__qualname__}.__init__", made.__module__
    return init


def _parameter(one: Field[Any], known: dict[str, Any]) -> str:
    """A field as a parameter; its default joins the names `known` to the code."""
    if one.default_factory is not MISSING:
        known[f"_of_{one.name}"] = one.default_factory
        return f"{one.name}=_missing"
    if one.default is MISSING:
        return one.name
    known[f"_of_{one.name}"] = one.default
    return f"{one.name}=_of_{one.name}"


@recursive_repr("...")
def _represented(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _compare(made: Any, own: dict[str, Any], frozen: bool) -> None:
    """Add `__eq__` and `__hash__`, unless the class has its own."""
    names = [one.name for one in fields(made) if one.compare]
    hashed = [one.name for one in fields(made) if (one.compare if one.hash is None else one.hash)]
    compared, values = _tuple_of(names), _tuple_of(hashed)

    def __eq__(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compared(self) == compared(other)

    def __hash__(self: Any) -> int:
        return hash(values(self))

    if "__eq__" not in own:
        made.__eq__ = __eq__
    # Python adds `__hash__ = None` to a class that defines `__eq__` alone.
    if own.get("__hash__") is None:
        made.__hash__ = __hash__ if frozen else None


def _tuple_of(names: list[str]) -> Any:
    """The function that reads these attributes as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def _freeze(made: Any) -> None:
    """Refuse changes of the fields, and of all attributes of the class itself."""
    names = frozenset(one.name for one in fields(made))

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(made, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is made or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(made, self).__delattr__(name)

    made.__setattr__, made.__delattr__ = __setattr__, __delattr__
    if "__slots__" in made.__dict__:  # else copies would set the fields
        made.__getstate__, made.__setstate__ = _state, _restore


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for one, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)
