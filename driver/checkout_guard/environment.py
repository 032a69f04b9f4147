"""Fingerprint of the tests' environment: files outside the checkouts that can change test results.

These are the private git dirs, files that runners read in parent folders, programs and installed
modules. Only stat data are compared, because every edit changes them. `guard` attributes the
changes.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from driver.checkout_guard.fingerprint import AROUND, SETTING
from driver.checkout_guard.home_settings import settings_of_builds, settings_of_checkers
from driver.checkout_guard.installed import PACKAGES
from driver.filesystem.tree import Signature, signature_at
from driver.policy.protected_paths import configuration

_GIT_FILES = (
    *("config", "config.worktree", "commondir", "shallow", "objects/info/alternates"),
    *("info/attributes", "info/grafts", "info/sparse-checkout"),
)
# Without instructions of agents: agents' programs write them in the home folder.
_DECIDING = (
    *("configuration of a test runner", "configuration of a build", "configuration of a checker"),
    "run by Python",
)
_FOLDER: Signature = (stat.S_IFDIR,)
_FOR_LOOKING_UP = "node_modules"
# Read in the home only, so they are watched as settings of the home.
_NOT_LOOKED_UP = frozenset((".flake8", ".mypy.ini", ".pylintrc", ".coveragerc"))
# Cargo writes into its folder at its first use, and reads only these files of it as settings.
_SETTINGS_IN = {".cargo": ("config", "config.toml")}


class EnvironmentFingerprint:
    """Fingerprints the environment of the test checkouts in the wave's own `folder`. `called` are
    the programs that start its tests. With `may_install`, set-up or tests can install programs and
    Python modules at any time, so these are not watched."""

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        *,
        may_install: bool,
        called: Iterable[str] = (),
    ) -> None:
        home = environ.get("HOME", "")
        checkouts = folder / "proving"
        self._above = [str(one) for one in (checkouts, *checkouts.parents)]
        # Strings: path objects would take most of the time of a look, and each item needs two
        # looks.
        git_dirs = ("private.git", "watch")
        self._single = [f"{folder}/{name}/{file}" for name in git_dirs for file in _GIT_FILES]
        self._single += settings_of_builds(environ)
        self._settings = settings_of_checkers(environ)
        self._home = home.rstrip("/")
        self._path = "" if may_install else environ.get("PATH", "")
        self._called = () if may_install else tuple(called)
        entries = self._path.split(os.pathsep)
        roots = [str(Path(entry).parent / "lib") for entry in entries if entry.endswith("bin")]
        local = [f"{home}/.local/lib"] if home and not may_install else []
        self._roots = list(dict.fromkeys([*roots, *local]))
        self._names = dict[str, str]()  # the names of parts, which are made once

    def look(self) -> dict[str, object]:
        """The stat data of each existing file, by the name of its part."""
        settings = (seen for path in self._settings for seen in _there(path))
        lib = ((root, name) for root in self._roots for name in _names(root))
        pythons = (f"{root}/{name}" for root, name in lib if name.startswith("python"))
        packages = (f"{python}/{name}" for python in pythons for name in PACKAGES)
        return {
            **{f"{SETTING}{path}": signature for path, signature in settings},
            **{f"{AROUND}{path}": signature for path, signature in self._seen()},
            **{name: part for folder in packages for name, part in self._modules(folder)},
        }

    def _seen(self) -> Iterator[tuple[str, object]]:
        for path in self._single:
            yield from _there(path)
        for folder in self._above:
            is_home = folder == self._home
            yield from _deciding(folder, _NOT_LOOKED_UP if is_home else frozenset())
        for name in self._called:
            if found := shutil.which(name, path=self._path):
                yield found, (signature_at(found), signature_at(os.path.realpath(found)))

    def _modules(self, folder: str) -> Iterator[tuple[str, object]]:
        """The names in a folder of packages, and the stat data of single files, read in one go:
        there may be thousands. Compiled files do not count, because Python writes them at any
        time."""
        names = self._names
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name == "__pycache__":
                    continue
                signature: Signature | None = _FOLDER
                if not entry.is_dir(follow_symlinks=False):
                    signature = signature_at(entry.path)
                path = entry.path
                yield names.get(path) or names.setdefault(path, f"{AROUND}{path}"), signature


def _there(path: str) -> Iterator[tuple[str, object]]:
    """A path that exists; a folder with the names in it."""
    if (signature := signature_at(path)) is not None:
        is_folder = stat.S_ISDIR(signature[0])
        yield path, (signature, _names(path)) if is_folder else signature


def _deciding(folder: str, others: Collection[str]) -> Iterator[tuple[str, object]]:
    """Files of a folder, except for `others`, that runners read when they search parent folders for
    their configuration."""
    for name in _names(folder):
        if name not in others and _decides(name):
            path = os.path.join(folder, name)  # noqa: PTH118 - the root ends in a slash
            if name in _SETTINGS_IN:
                for file in _SETTINGS_IN[name]:
                    yield from _there(f"{path}/{file}")
            else:
                yield from _there(path) if name == _FOR_LOOKING_UP else [(path, signature_at(path))]


@functools.lru_cache(
    maxsize=100_000
)  # a parent folder may have thousands of files, and is read often
def _decides(name: str) -> bool:
    return any(configuration(path).startswith(_DECIDING) for path in (name, f"{name}/x"))


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return []
