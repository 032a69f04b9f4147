"""Lines of a red test's output that look like the work of its walls, and what would allow it. Pure.

A hint proves nothing: a test of wrong work prints the same words.
"""

from __future__ import annotations

import re

_NETWORK = '`network = "host"`'
_FILES = "`readable` or `writable`"
_HINTS = (
    (
        r"(?:Temporary failure in )?name resolution|Could not resolve host|EAI_AGAIN"
        r"|Network is unreachable|ENETUNREACH|network is unreachable",
        _NETWORK,
    ),
    (r"[Cc]onnection refused|ECONNREFUSED", _NETWORK),
    (r"[Rr]ead-only file system|EROFS", _FILES),
    (r"[Pp]ermission denied|EACCES", _FILES),
    (
        r"[Nn]o such file or directory[^\n']{0,20}'/(?:home|root|var|srv|mnt)/"
        r"(?:(?!/tidegate/)[^\n']){,80}'",
        _FILES,
    ),
)
_BEGIN = "the test ran inside of walls"


def about_walls(level: str, output: str) -> str:
    """The part of a remedy that says what the walls of a red test may have kept from it."""
    begin = f"{_BEGIN} ({level})"
    for pattern, setting in _HINTS:
        if found := re.search(pattern, output):
            # The setting stands first, as short reports cut the end.
            return f'{begin}, and {setting} in [sandbox.test] would allow: "{found[0]}"'
    return f"{begin}; if it needs more of this machine, allow that in [sandbox.test]"


def hint_in(remedy: str | None) -> str | None:
    """The first part of a remedy, if it is about walls and the output speaks for that."""
    found = re.match(rf'{_BEGIN} \S+, and .+? would allow: "[^"]*"?', remedy or "")
    return found[0] if found else None
