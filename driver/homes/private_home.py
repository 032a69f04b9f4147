"""The private home of a command: links to toolchains, and to what a set-up installed in its own.

A command finds there what it needs of the user's home and of its set-up's, and nothing else. What
it writes there is gone with the home.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

# Folders of a home in which several tools have a part each.
_SHARED = frozenset(
    {
        *("", ".cache", ".config", ".local", ".local/share", ".local/state", ".cargo", ".npm"),
        *(".gradle", ".m2", "go", ".yarn", ".cache/node"),
    }
)
# Their tools must be able to write there, and fill them again without a network.
_MADE_ANEW = frozenset({".cache/uv", ".cache/go-build", ".cache/pip", ".npm/_logs", ".cache/yarn"})
_VARIABLES = ("HOME", "TMPDIR", "TMP", "TEMP")
# They name folders in the user's home, whose place in a private one is the usual one.
_MOVES_OUT = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")


def lay(home: Path, links: Iterable[tuple[str, Path]], prepared: Path | None = None) -> None:
    """Fill a home with `links`, and with links to the entries of the home `prepared`."""
    for name, target in links:
        _link(home / name, target)
    if prepared is not None:
        _link_entries(prepared, home, "")


def variables(home: Path, temporary: Path) -> dict[str, str]:
    """The variables that lead a command to its home and its temporary folder."""
    found = dict(zip(_VARIABLES, map(str, (home, *[temporary] * 3)), strict=True))
    return {**found, **_for_java(home)}


def without_moved(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without variables that lead back into the user's own home."""
    return {name: value for name, value in environment.items() if name not in _MOVES_OUT}


def _for_java(home: Path) -> dict[str, str]:
    """Programs in Java ask the system's users, not HOME, where the home is."""
    if " " in str(home):  # the options are split at spaces
        return {}
    return {"MAVEN_OPTS": f"-Duser.home={home}", "GRADLE_USER_HOME": f"{home}/.gradle"}


def _link(link: Path, target: Path) -> None:
    if not os.path.lexists(link):
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)


def _link_entries(source: Path, home: Path, below: str) -> None:
    """Link the entries of a folder of a home; a shared folder is made, and filled the same way."""
    with suppress(OSError), os.scandir(source / below) as entries:
        for entry in entries:
            name = f"{below}/{entry.name}".lstrip("/")
            if name in _MADE_ANEW:
                continue
            if name in _SHARED and not entry.is_symlink():
                _link_entries(source, home, name)
            elif not (home / name).is_symlink():
                _link(home / name, source / name)
