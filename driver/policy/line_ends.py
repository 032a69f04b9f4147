"""Keeps the line ends of the base in files that an agent's editor saved with others. Pure."""

from __future__ import annotations

_LF, _CRLF = b"\n", b"\r\n"


def kept(base: bytes | None, new: bytes, *, converts: bool) -> bytes | None:
    """The new content with the line ends of the base; None if it has them, or if either content is
    binary or mixes its line ends. A new file, without a base, gets LF where git `converts` to it
    (`core.autocrlf`)."""
    ends = _ends(new)
    wanted = _LF if base is None else _ends(base)
    if not ends or not wanted or ends == wanted or (base is None and not converts):
        return None
    return new.replace(ends, wanted)


def _ends(content: bytes) -> bytes:
    """The line end of a text, if all its lines have the same; else b""."""
    lines, with_return = content.count(_LF), content.count(_CRLF)
    if not lines or b"\0" in content or content.count(b"\r") != with_return:
        return b""
    return {0: _LF, lines: _CRLF}.get(with_return, b"")
