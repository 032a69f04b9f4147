"""Regular expressions that are compiled at their first use: most runs use few of those that a
module has, and to compile one takes a tenth of a millisecond."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

_OFFERED = (
    *("search", "match", "fullmatch", "findall", "finditer", "split", "sub", "subn"),
    *("pattern", "flags", "groups", "groupindex"),
)


class _LazyPattern:
    """A pattern that becomes a compiled one when it is asked for anything."""

    def __init__(self, text: str, flags: int = 0) -> None:
        self._made_of = text, flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._made_of)
        vars(self).update((one, getattr(compiled, one)) for one in _OFFERED)
        return getattr(compiled, name)


if TYPE_CHECKING:
    lazy_pattern = re.compile
else:
    lazy_pattern = _LazyPattern
