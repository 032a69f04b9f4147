"""Texts of a tree's files for pure rules, each read at its first use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property


class LazyTexts(Mapping[str, str]):
    """The texts of the files `paths`. Only those that are `listed` are found by iteration. `read`
    returns None for a file whose text is not to be had."""

    def __init__(
        self,
        paths: Collection[str],
        read: Callable[[str], str | None],
        listed: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._paths, self._text, self._is_listed = paths, read, listed
        self._read: dict[str, str | None] = {}

    @cached_property
    def _names(self) -> list[str]:
        return [path for path in self._paths if self._is_listed(path)]

    def __getitem__(self, path: str) -> str:
        if path not in self._read:
            self._read[path] = self._text(path) if path in self._paths else None
        if (text := self._read[path]) is None:
            raise KeyError(path)
        return text

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
