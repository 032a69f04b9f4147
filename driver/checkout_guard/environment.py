"""What lies around proving trees and has a say in what tests do there: looked at like the checkout.

The private git dirs, what runners find in the folders above, programs and installed modules. Only
stat data count, which no edit leaves as they were. Who changed what is `tripwire`'s question.
"""

from __future__ import annotations

import functools
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path

from driver.checkout_guard.fingerprint import AROUND
from driver.filesystem.tree import Signature, signature_at, signature_of
from driver.policy.protected_paths import configuration

_GIT_FILES = (
    *("config", "config.worktree", "commondir", "shallow", "objects/info/alternates"),
    *("info/attributes", "info/grafts", "info/sparse-checkout"),
)
# Instructions of agents are not here: agents' programs write them in the home folder.
_DECIDING = (
    *("configuration of a test runner", "configuration of a build", "configuration of a checker"),
    "run by Python",
)
_FOR_LOOKING_UP = "node_modules"
_BUILD_SETTINGS = (
    *(".npmrc", ".yarnrc", ".yarnrc.yml", ".config/pip/pip.conf", ".pip/pip.conf"),
    *(".cargo/config", ".cargo/config.toml", ".config/go/env", ".m2/settings.xml"),
    *(".gradle/gradle.properties", ".gradle/init.gradle", ".gradle/init.d", ".rspec"),
    *(".node_modules", ".node_libraries", ".config/tidegate/tidegate.toml"),
)
_PACKAGES = ("site-packages", "dist-packages")


class EnvironmentFingerprint:
    """Of the proving trees in `folder`, a wave's own one, and the programs that its tests are
    `called` by; `may_install` says that set-up or tests install programs and Python modules at any
    time, so these are not looked at."""

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        *,
        may_install: bool,
        called: Iterable[str] = (),
    ) -> None:
        home = environ.get("HOME", "")
        proving = folder / "proving"
        self._above = [str(one) for one in (proving, *proving.parents)]
        # Texts: paths as objects would take most of the time of a look, and each item asks for two.
        own = (
            f"{folder}/{name}/{file}" for name in ("private.git", "watch") for file in _GIT_FILES
        )
        homes = (f"{home}/{name}" for name in _BUILD_SETTINGS) if home else ()
        self._single = [*own, *homes]
        self._path = "" if may_install else environ.get("PATH", "")
        self._called = () if may_install else tuple(called)
        entries = self._path.split(os.pathsep)
        roots = [str(Path(entry).parent / "lib") for entry in entries if entry.endswith("bin")]
        local = [f"{home}/.local/lib"] if home and not may_install else []
        self._roots = list(dict.fromkeys([*roots, *local]))

    def look(self) -> dict[str, str]:
        """What is there by now, by the name that people call it by."""
        return {f"{AROUND}{path}": repr(signature) for path, signature in self._seen()}

    def _seen(self) -> Iterator[tuple[str, object]]:
        for path in self._single:
            yield from _there(path)
        for folder in self._above:
            yield from _deciding(folder)
        for name in self._called:
            if found := shutil.which(name, path=self._path):
                yield found, (signature_at(found), signature_at(os.path.realpath(found)))
        for folder in self._module_folders():
            if modules := _modules(folder):
                yield folder, modules

    def _module_folders(self) -> Iterator[str]:
        for root in self._roots:
            for version in _names(root):
                if version.startswith("python"):
                    yield from (f"{root}/{version}/{name}" for name in _PACKAGES)


def _there(path: str) -> Iterator[tuple[str, object]]:
    """A path that exists; a folder counts by the names in it."""
    if (signature := signature_at(path)) is not None:
        is_folder = stat.S_ISDIR(signature[0])
        yield path, (signature, _names(path)) if is_folder else signature


def _deciding(folder: str) -> Iterator[tuple[str, object]]:
    """What runners that look for their configuration upwards find in a folder."""
    for name in _names(folder):
        if _decides(name):
            path = os.path.join(folder, name)  # noqa: PTH118 - the root ends in a slash
            yield from _there(path) if name == _FOR_LOOKING_UP else [(path, signature_at(path))]


@functools.lru_cache(maxsize=100_000)  # a folder above may hold thousands, and is looked at often
def _decides(name: str) -> bool:
    return any(configuration(path).startswith(_DECIDING) for path in (name, f"{name}/x"))


def _modules(folder: str) -> tuple[object, ...]:
    """The names in a folder of modules, with the stat data of single files; compiled files come and
    go by themselves."""
    try:
        with os.scandir(folder) as entries:
            found = [(one.name, _of(one)) for one in entries if one.name != "__pycache__"]
    except OSError:
        return ()
    return tuple(sorted(found, key=itemgetter(0)))


def _of(entry: os.DirEntry[str]) -> Signature | None:
    try:
        return signature_of(entry.stat(follow_symlinks=False))
    except OSError:
        return None


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return []
