"""The private home of a command: links to toolchains, and what a set-up installed in its own.

A command finds there what it needs of the user's home and of its set-up's, and nothing else. What
it writes there is gone with the home.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from driver.filesystem.open_folders import FoldersBelow, NotPlainError
from driver.filesystem.plain_copies import Below, copy_plain
from driver.homes.compiled import CachesOfTest
from driver.homes.login import Lent, LoginFile, lend
from driver.homes.prepared import (
    GRADLE_STARTER,
    MADE_ANEW,
    lay_prepared,
    link,
    link_distributions,
)
from driver.homes.toolchains import TOOLCHAIN_PLACES
from state_store.values.lazy_dataclass import dataclass

_GRADLE_CACHES = ".gradle/caches"
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
        with FoldersBelow(home) as folders:
            for name, target in self.shared:
                link(folders, name, target)
            for name, target in self.links:
                if self.has_own_caches and name in MADE_ANEW:
                    continue
                if self.has_own_caches and name == GRADLE_STARTER:
                    link_distributions(Path(target), folders)
                elif view != self.user and _is_kept(view, name):
                    with suppress(NotPlainError):
                        copy_plain(Below(view, name), Below(home, name))
                else:
                    link(folders, name, target)
        if self.compiled is not None:
            self.compiled.lend(home)
        lent = lend(self.login, home)  # first, or a link of the set-up could lead it elsewhere
        if self.prepared is not None:
            lay_prepared(self.prepared, home, self.user)
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
    """The options that name the home and the temporary folder to programs in Java, which read
    neither HOME nor TMPDIR."""
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
