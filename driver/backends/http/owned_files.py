"""Renders the owned files of a workspace as prompt lines, within a budget of bytes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from driver.backends.http.patch_protocol import Shown, file_line, size_of
from driver.domain.ownership import OwnedPath, OwnershipError, parse_owned
from driver.filesystem.open_folders import NotPlainError
from driver.filesystem.safe_file_access import TooLargeError, list_plain, read_plain
from state_store.documents.errors import CannotRunError, InputError


def show_owned(root: Path, names: tuple[str, ...], budget: int) -> Shown:
    """Read the owned files below `root`.

    Files named by the item must fit into `budget` bytes after JSON's escapes. Files of owned
    folders are shown while there is room, then only their names. Raises InputError for names that
    no item can own, CannotRunError for unreadable files.
    """
    problems: list[str] = []
    parsed: dict[OwnedPath, None] = {}
    for name in names:
        try:
            parsed[parse_owned(name)] = None
        except OwnershipError as error:
            climbs = ".." in name.replace("\\", "/").split("/")
            problems.append(f"{error}{' (escapes containment)' if climbs else ''}")
    if problems:
        raise InputError(problems)
    owned = tuple(parsed)
    try:
        lines = [_line(root, one.path, budget) for one in owned if not one.is_dir]
    except TooLargeError as error:
        raise CannotRunError(_over_budget(f"{error.size} bytes in one alone", budget)) from error
    used = size_of(lines)
    if used > budget:
        raise CannotRunError(_over_budget(f"{used} bytes", budget))
    hidden = []
    named = {one.path for one in owned if not one.is_dir}
    below = [path for one in owned if one.is_dir for path in list_plain(root, one.path)]
    for path in (path for path in below if path not in named):
        line = ""
        with suppress(CannotRunError):  # an image in the folder does not stop the item
            line = _line(root, path, budget - used)
        size = size_of([line])
        if not line or used + size > budget:
            hidden.append(path)
            lines.append(file_line(path, None, None, "not a text, or no room for it"))
        else:
            lines.append(line)
            used += size
    return Shown(owned, tuple(lines), frozenset(hidden))


def _over_budget(how_much: str, budget: int) -> str:
    return (
        f"the owned files exceed context budget: {how_much} post-escape, {budget} allowed; "
        "raise [backend] max_owned_bytes or list fewer files in ownsFiles"
    )


def _line(root: Path, path: str, budget: int) -> str:
    try:
        content = read_plain(root, path, budget)
        return file_line(path, None if content is None else content.decode("utf-8"), content)
    except UnicodeDecodeError as error:
        raise NotPlainError(f"{path} is not UTF-8, and this backend reads only text") from error
    except OSError as error:
        raise CannotRunError(f"{path} cannot be read: {error}") from error
