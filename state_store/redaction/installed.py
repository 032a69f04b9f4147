"""The redactor of this process. All doors through which texts leave it ask this module.

A program or a wave makes its secrets known once, with `hiding`. Until then nothing is changed, and
nothing but this small module is loaded.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from state_store.redaction.redactor import Redactor

_lock = threading.Lock()
_known: list[Mapping[str, str]] = []
_current: Redactor | None = None


@contextmanager
def hiding(secrets: Mapping[str, str]) -> Iterator[None]:
    """Hides the values of `secrets` in all texts of this process, until the block ends."""
    hide(secrets)
    try:
        yield
    finally:
        with _lock:
            _known[:] = [one for one in _known if one is not secrets]
            _remake()


@contextmanager
def scope() -> Iterator[None]:
    """Ends what `hide` began, when the block ends: the run of a program."""
    with _lock:
        before = list(_known)
    try:
        yield
    finally:
        with _lock:
            _known[:] = before
            _remake()


def hide(secrets: Mapping[str, str]) -> None:
    """Like `hiding`, until the `scope` ends."""
    with _lock:
        _known.append(secrets)
        _remake()


def current() -> Redactor | None:
    """The redactor of this process; None if no secret is known."""
    return _current


def redacted(text: str) -> str:
    """The text without known secrets."""
    return text if _current is None else _current.text(text)


def redacted_value(value: Any) -> Any:
    """The JSON value with no known secret in its texts."""
    return value if _current is None else _current.value(value)


def _remake() -> None:
    global _current  # noqa: PLW0603 - one for the process, because every text of it is meant
    together = {name: value for one in _known for name, value in one.items()}
    if not together:
        _current = None
    elif _current is None or _current.secrets != together:
        from state_store.redaction.redactor import Redactor  # noqa: PLC0415 - only with secrets

        _current = Redactor(together)
