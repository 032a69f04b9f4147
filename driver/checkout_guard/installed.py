"""Python modules that were installed while items were at work. A new module harms no test that does
not import it, unless Python or a tool runs it by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path, PurePath

from driver.filesystem.safe_file_access import regular_bytes
from driver.policy.installed_modules import normal_name

PACKAGES = ("site-packages", "dist-packages")
_RUN_BY_PYTHON = re.compile(r"(site|user)customize\b.*|.*\.(pth|egg-link|start)", re.IGNORECASE)
_METADATA = (".dist-info", ".egg-info")
_ENTRY_POINTS = "entry_points.txt"
# Entry points of other groups are plugins of tools, which load them by themselves.
_OF_SCRIPTS = frozenset({"console_scripts", "gui_scripts"})
_GROUP = re.compile(r"^\s*\[([^\]]+)\]", re.MULTILINE)


def is_module(path: str) -> bool:
    """True for a path of an installed Python module."""
    return PurePath(path).parent.name in PACKAGES


def runs_by_itself(path: str) -> bool:
    """True if Python or a tool runs something of a new module without being asked to."""
    name = PurePath(path).name
    if _RUN_BY_PYTHON.fullmatch(name):
        return True
    if not name.endswith(_METADATA):
        return False
    try:
        text = regular_bytes(Path(path, _ENTRY_POINTS)).decode("utf-8", "replace")
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return not {group.strip() for group in _GROUP.findall(text)} <= _OF_SCRIPTS


def import_names(paths: Iterable[str]) -> set[str]:
    """The names by which modules are imported."""
    names = (PurePath(path).name for path in paths)
    return {name.partition(".")[0] for name in names if not name.endswith(_METADATA)}


def distribution_names(paths: Iterable[str]) -> set[str]:
    """The normal names of the distributions whose metadata is among the paths."""
    names = (PurePath(path).name for path in paths)
    found = (name.partition("-")[0] for name in names if name.endswith(_METADATA))
    return {normal_name(name.removesuffix(".egg")) for name in found}
