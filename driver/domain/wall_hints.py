"""Lines of a failed command's output that look like the work of its walls, and what would allow
it. Pure.

A hint proves nothing: a test of wrong work prints the same words.
"""

from __future__ import annotations

import re

_NETWORK = '`network = "host"`'
_FILES = "`readable` or `writable`"
_LANDLOCK = "landlock"
# `landlock` cannot hide sockets, so it forbids them; and without namespaces it has no shared memory
# of its own. Languages tell neither in one line, and only the last one of these is quoted.
_AT_LANDLOCK = (
    (
        r"SemLock\([^\0]{,200}?Permission denied$|Permission denied: '/(?:psm_|pym-|mp-)[^'\n]*'"
        r"|shared memory segment.{,80}Permission denied",
        '`writable = ["/dev/shm"]`',
    ),
    (
        r"socket\.socket\.__init__\([^\0]{,200}?Permission denied$"
        r"|(?:[Uu]nix|[Ss]ocket|\.sock\b).{,80}(?:[Pp]ermission denied|EACCES)"
        r"|EACCES.{,80}\.sock\b",
        "`unix_sockets = true`",
    ),
)
# A copied folder is a mount there; where a set-up runs, each place has a copy of its own instead.
_COPIES = '`setup = ["true"]` in [workspace]'
_HINTS = (
    (r"(?:Device or resource|[Rr]esource) busy|EBUSY|Invalid cross-device link|EXDEV", _COPIES),
    (
        r"(?:Temporary failure in )?name resolution|Could not resolve host|EAI_AGAIN"
        r"|Network is unreachable|ENETUNREACH|network is unreachable",
        _NETWORK,
    ),
    (r"[Cc]onnection refused|ECONNREFUSED", _NETWORK),
    (
        # A wall without namespaces can give no private one; programs should use TMPDIR.
        r"/(?:var/)?tmp(?:/(?!tidegate)[^\n\"]{,80})?: (?:Permission denied|Read-only file system)"
        r"|(?:Permission denied|EACCES|Read-only file system|EROFS)[^\n\"]{,40}'/(?:var/)?tmp"
        r"(?:/(?!tidegate)[^\n\"]{,80})?'",
        '`writable = ["/tmp"]`',
    ),
    (r"[Rr]ead-only file system|EROFS", _FILES),
    (r"[Pp]ermission denied|EACCES", _FILES),
    (
        r"[Nn]o such file or directory[^\n']{0,20}'/(?:home|root|var|srv|mnt)/"
        r"(?:(?!/tidegate/)[^\n']){,80}'",
        _FILES,
    ),
    (r"exec: /\S+: not found|/\S+: bad interpreter", "`readable`"),
)
_SUBJECTS = {"test": "the test", "setup": "the set-up"}
_BEGIN = "ran inside of walls"


def about_walls(level: str, output: str, role: str = "test") -> str:
    """The sentence that says what the walls of a failed command of a role may have kept from it."""
    begin = f"{_SUBJECTS[role]} {_BEGIN} ({level})"
    for pattern, setting in (*(_AT_LANDLOCK if level.startswith(_LANDLOCK) else ()), *_HINTS):
        if found := re.search(pattern, output, re.MULTILINE):
            quoted = found[0].splitlines()[-1].strip().replace('"', "'")
            # The setting stands first, as short reports cut the end.
            where = "" if setting is _COPIES else f" in [sandbox.{role}]"
            return f'{begin}, and {setting}{where} would allow: "{quoted}"'
    often = " (a socket by a path: `unix_sockets = true`)" if level.startswith(_LANDLOCK) else ""
    return f"{begin}; if it needs more of this machine, allow that in [sandbox.{role}]{often}"


def hint_in(remedy: str | None) -> str | None:
    """The first part of a remedy, if it is about walls and the output speaks for that."""
    found = re.match(rf'the \S+ {_BEGIN} \S+, and .+? would allow: "[^"]*"?', remedy or "")
    return found[0] if found else None
