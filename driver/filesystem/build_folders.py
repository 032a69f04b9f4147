"""Build folders that all checkouts would share. Two trees in one build folder take each other's
programs, so each checkout gets its own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from driver.filesystem.safe_file_access import regular_bytes
from state_store.documents.strict_json import parse_toml

# Variables that name a build folder, and the usual one in a checkout.
_USUAL = {
    "CARGO_TARGET_DIR": "target",
    "CARGO_BUILD_TARGET_DIR": "target",
    "CARGO_BUILD_BUILD_DIR": "target",
    "MYPY_CACHE_DIR": ".mypy_cache",
    "RUFF_CACHE_DIR": ".ruff_cache",
    "COVERAGE_FILE": ".coverage",
    "TOX_WORK_DIR": ".tox",
    "TOXWORKDIR": ".tox",
    "NX_CACHE_DIRECTORY": ".nx/cache",
    "PYTHONPYCACHEPREFIX": ".pycache",
}
# Settings of cargo, and the variables that go before them.
_OF_CARGO = {"target-dir": "CARGO_TARGET_DIR", "build-dir": "CARGO_BUILD_BUILD_DIR"}


def private_builds(
    environ: Mapping[str, str], top: Path, work_dir: str, place: Path
) -> dict[str, str]:
    """The variables that move the shared build folders of a checkout at `top` into `place`: those
    that `environ` or a configuration of cargo sets to a folder outside of the checkout."""
    shared = [
        name
        for name in _USUAL
        if (value := environ.get(name)) and _is_outside(Path(value), top / work_dir, top)
    ]
    set_by_cargo = dict(_cargo_settings(environ, top, top / work_dir))
    shared += [name for key, name in _OF_CARGO.items() if set_by_cargo.get(key)]
    return {name: f"{place}/{_USUAL[name]}" for name in shared}


def _cargo_settings(
    environ: Mapping[str, str], top: Path, folder: Path
) -> Iterator[tuple[str, bool]]:
    """The settings of cargo that name a build folder, the deciding one last, each with True if it
    is outside of the checkout."""
    home = environ.get("CARGO_HOME") or f"{environ.get('HOME', '')}/.cargo"
    above = [one / ".cargo" for one in reversed((folder, *folder.parents))]
    folders = dict.fromkeys((Path(home), *above))
    for cargo in folders:
        build = _build_table(cargo)
        for key in _OF_CARGO:
            value = build.get(key)
            # A name with a template has a folder for each workspace.
            if isinstance(value, str) and "{workspace-path-hash}" not in value:
                yield key, _is_outside(Path(value), cargo.parent, top)


def _build_table(cargo: Path) -> Mapping[str, object]:
    """The table `[build]` of a configuration of cargo; the older name goes first, as cargo has
    it."""
    if not os.path.isdir(cargo):  # noqa: PTH112 - nearly always, and each test run asks
        return {}
    for name in ("config", "config.toml"):
        with suppress(OSError, ValueError):
            found = parse_toml(regular_bytes(cargo / name).decode("utf-8")).get("build")
            return found if isinstance(found, dict) else {}
    return {}


def _is_outside(path: Path, base: Path, top: Path) -> bool:
    """True if a path that starts at `base` leads out of `top`."""
    return not Path(os.path.normpath(base / path)).is_relative_to(top)
