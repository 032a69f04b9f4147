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
from pathlib import Path

from driver.checkout_watch import AROUND
from driver.folders import Signature, signature_of
from driver.protected import configuration

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


class Neighbourhood:
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
        self._folder = folder
        self._home = Path(environ["HOME"]) if environ.get("HOME") else None
        self._path = [] if may_install else environ.get("PATH", "").split(os.pathsep)
        self._modules = not may_install
        self._called = () if may_install else tuple(called)

    def look(self) -> dict[str, str]:
        """What is there by now, by the name that people call it by."""
        found = dict(self._seen())
        return {f"{AROUND}{path}": repr(signature) for path, signature in found.items()}

    def _seen(self) -> Iterator[tuple[Path, object]]:
        for name in ("private.git", "watch"):
            for file in _GIT_FILES:
                yield from _there(self._folder / name / file)
        proving = self._folder / "proving"
        for folder in (proving, *proving.parents):
            yield from _deciding(folder)
        if self._home is not None:
            for name in _BUILD_SETTINGS:
                yield from _there(self._home / name)
        for name in self._called:
            if found := shutil.which(name, path=os.pathsep.join(self._path)):
                yield Path(found), (_signature(Path(found)), _signature(Path(found).resolve()))
        for folder in self._module_folders() if self._modules else ():
            if modules := _modules(folder):
                yield folder, modules

    def _module_folders(self) -> Iterator[Path]:
        roots = [Path(entry).parent / "lib" for entry in self._path if entry.endswith("bin")]
        if self._home is not None:
            roots.append(self._home / ".local" / "lib")
        for root in dict.fromkeys(roots):
            for version in _names(root):
                if version.startswith("python"):
                    yield from (root / version / name for name in _PACKAGES)


def _there(path: Path) -> Iterator[tuple[Path, object]]:
    """A path that exists; a folder counts by the names in it."""
    if (signature := _signature(path)) is not None:
        is_folder = stat.S_ISDIR(signature[0])
        yield path, (signature, _names(path)) if is_folder else signature


def _deciding(folder: Path) -> Iterator[tuple[Path, object]]:
    """What runners that look for their configuration upwards find in a folder."""
    for name in _names(folder):
        if _decides(name):
            path = folder / name
            yield from _there(path) if name == _FOR_LOOKING_UP else [(path, _signature(path))]


@functools.lru_cache(maxsize=100_000)
def _decides(name: str) -> bool:
    return any(configuration(path).startswith(_DECIDING) for path in (name, f"{name}/x"))


def _modules(folder: Path) -> tuple[object, ...]:
    """The names in a folder of modules, with the stat data of single files; compiled files come and
    go by themselves."""
    names = [name for name in _names(folder) if name != "__pycache__"]
    return tuple((name, _signature(folder / name)) for name in names)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are all that is wanted
    except OSError:
        return []


def _signature(path: Path) -> Signature | None:
    try:
        return signature_of(path.lstat())
    except OSError:
        return None
