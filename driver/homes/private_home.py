"""The private home of a command: links to toolchains, and to what a set-up installed in its own.

A command finds there what it needs of the user's home and of its set-up's, and nothing else. What
it writes there is gone with the home.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from driver.filesystem.open_folders import NotPlainError
from driver.filesystem.plain_copies import Below, copy_plain
from driver.filesystem.safe_file_access import link_plain
from driver.homes.compiled import COMPILED, CachesOfTest
from driver.homes.login import Lent, LoginFile, lend
from driver.homes.toolchains import TOOLCHAIN_PLACES
from state_store.values.lazy_dataclass import dataclass

# Folders of a home in which several tools have a part each.
_SHARED = frozenset(
    {
        *("", ".cache", ".config", ".local", ".local/share", ".local/state", ".cargo", ".npm"),
        *(".gradle", ".m2", "go", ".yarn", ".cache/node"),
    }
)
# Their tools must be able to write there, and fill them again without a network.
_MADE_ANEW = frozenset(
    {*COMPILED, ".cache/uv", ".cache/pip", ".npm/_logs", ".cache/yarn", ".gradle/caches"}
)
# Its starter locks each distribution by a file beside it, and its build asks for dependencies here.
_GRADLE_STARTER, _GRADLE_CACHES = ".gradle/wrapper", ".gradle/caches"
_DISTRIBUTIONS = "dists/*/*/*"
_VARIABLES = ("HOME", "TMPDIR", "TMP", "TEMP")
# They name folders in the user's home, whose place in a private one is the usual one.
_LEADS_BACK = (
    *("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"),
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME"),
)


@dataclass(frozen=True, slots=True)
class HomeRecipe:
    """The making of a private home of the user whose home is `user`. `links` are names in a home
    and their targets, `prepared` is the home of the set-up, `login` the login of an agent's
    program. With `has_own_caches` the caches that their tools must write are not linked, except for
    those in `shared`, which are links that the settings let a command write. `compiled` are the
    kept caches of a test."""

    user: Path
    links: tuple[tuple[str, str], ...] = ()
    prepared: Path | None = None
    login: tuple[LoginFile, ...] = ()
    has_own_caches: bool = False
    shared: tuple[tuple[str, str], ...] = ()
    compiled: CachesOfTest | None = None

    def furnish(self, home: Path, environment: Mapping[str, str]) -> Lent:
        """Fill a home; returns the login that its command may renew. Settings of the user's home
        that were changed during the wave are as HOME of `environment` has them."""
        home.mkdir(parents=True, exist_ok=True)
        view = Path(environment.get("HOME") or self.user)
        for name, target in self.shared:
            _link(home, name, target)
        for name, target in self.links:
            if self.has_own_caches and name in _MADE_ANEW:
                continue
            if self.has_own_caches and name == _GRADLE_STARTER:
                _link_distributions(Path(target), home)
                continue
            if view != self.user and _is_kept(view, name):
                with suppress(NotPlainError):
                    copy_plain(Below(view, name), Below(home, name))
            else:
                _link(home, name, target)
        if self.compiled is not None:
            self.compiled.lend(home)
        lent = lend(self.login, home)  # first, or a link of the set-up could lead it elsewhere
        if self.prepared is not None:
            _link_entries(self.prepared, home, "")
        return lent

    def environment(
        self,
        given: Mapping[str, str],
        home: Path,
        temporary: Path,
        reached: Sequence[Path] | None,
    ) -> dict[str, str]:
        """The variables `given` for a command with this home. Toolchains that are in none of the
        places `reached` are left out, and so is what leads back into the user's home; None is for
        all."""
        found = {name: value for name, value in given.items() if name not in _LEADS_BACK}
        if reached is not None:
            places = tuple(f"{place}/" for place in reached)
            for name in [one for one in TOOLCHAIN_PLACES if one in found]:
                if not f"{found[name]}/".startswith(places):
                    del found[name]
        own = dict(zip(_VARIABLES, map(str, (home, *[temporary] * 3)), strict=True))
        return {**found, **own, **_for_java(home, temporary, found), **self._for_gradle()}

    def _for_gradle(self) -> dict[str, str]:
        """The variable that names a cache of dependencies which gradle may only read."""
        homes = [one for one in (self.prepared, self.user) if one and self.has_own_caches]
        caches = (home / _GRADLE_CACHES for home in homes)
        found = next((one for one in caches if (one / "modules-2").is_dir()), None)
        return {"GRADLE_RO_DEP_CACHE": str(found)} if found else {}


def _for_java(home: Path, temporary: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Programs in Java ask the system's users, not HOME, where the home is, and nobody where the
    temporary folder is."""
    if " " in f"{home}{temporary}":  # the options are split at spaces
        return {}
    places = f"-Duser.home={home} -Djava.io.tmpdir={temporary}"
    names = ("MAVEN_OPTS", "GRADLE_OPTS")
    options = {name: f"{given.get(name, '')} {places}".strip() for name in names}
    return {**options, "GRADLE_USER_HOME": f"{home}/.gradle"}


def _is_kept(view: Path, name: str) -> bool:
    """True for the copy of a setting in a view of the home; False where that leads to the home."""
    path = view / name
    parts = (path, *(one for one in path.parents if view in one.parents))
    return path.exists() and not any(one.is_symlink() for one in parts)


def _link(home: Path, name: str, target: str) -> None:
    """Make a link that the home lacks; none below another link, which would change the target."""
    with suppress(FileExistsError, NotPlainError):
        link_plain(home, name, target)


def _link_distributions(source: Path, home: Path) -> None:
    """Link what is in each distribution of gradle, whose own folder is then one of this home."""
    for path in source.glob(_DISTRIBUTIONS):
        _link(home, f"{_GRADLE_STARTER}/{path.relative_to(source)}", str(path))


def _link_entries(source: Path, home: Path, below: str) -> None:
    """Link the entries of a folder of a home; a shared folder is made, and filled the same way."""
    with suppress(OSError), os.scandir(source / below) as entries:
        for entry in entries:
            name = f"{below}/{entry.name}".lstrip("/")
            if name in _MADE_ANEW:
                continue
            if name == _GRADLE_STARTER:
                _link_distributions(source / name, home)
                continue
            if name in _SHARED and not entry.is_symlink():
                _link_entries(source, home, name)
            else:
                _link(home, name, f"{source}/{name}")
