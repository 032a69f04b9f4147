"""The owned files of a workspace as lines for a prompt, within a budget of bytes."""

from __future__ import annotations

from pathlib import Path

from driver.backends.http.patch_protocol import Shown, file_line, size_of
from driver.domain.ownership import OwnedPath, OwnershipError, parse_owned
from driver.filesystem.safe_file_access import NotPlainError, list_plain, read_plain
from state_store.documents.errors import CannotRunError, InputError


def show_owned(root: Path, names: tuple[str, ...], budget: int) -> Shown:
    """Read the owned files below `root`.

    Files named by the item must fit into `budget` bytes after JSON's escapes; those of owned
    folders are shown as far as there is room, and by name after that. Raises InputError for names
    that nobody can own, CannotRunError for files that cannot be shown.
    """
    owned = _parsed(names)
    lines = [_line(root, one.path, budget) for one in owned if not one.is_dir]
    used = size_of(lines)
    if used > budget:
        raise CannotRunError(
            f"the owned files exceed context budget: {used} bytes post-escape, {budget} allowed; "
            "raise [backend] max_owned_bytes or let the item own less"
        )
    hidden = []
    for path in _below(root, owned):
        line = _line_or_none(root, path, budget - used)
        size = 0 if line is None else size_of([line])
        if line is None or used + size > budget:
            hidden.append(path)
            lines.append(file_line(path, None, None, "no text, or no room for it"))
        else:
            lines.append(line)
            used += size
    return Shown(owned, tuple(lines), frozenset(hidden))


def _parsed(names: tuple[str, ...]) -> tuple[OwnedPath, ...]:
    problems: list[str] = []
    owned: dict[OwnedPath, None] = {}
    for name in names:
        try:
            owned[parse_owned(name)] = None
        except OwnershipError as error:
            problems.append(str(error))
    if problems:
        raise InputError(problems)
    return tuple(owned)


def _line(root: Path, path: str, budget: int) -> str:
    try:
        content = read_plain(root, path, budget)
        return file_line(path, None if content is None else content.decode("utf-8"), content)
    except UnicodeDecodeError as error:
        raise NotPlainError(f"{path} is not UTF-8 text, which is all this backend sees") from error
    except OSError as error:
        raise CannotRunError(f"{path} cannot be read: {error}") from error


def _below(root: Path, owned: tuple[OwnedPath, ...]) -> list[str]:
    named = {one.path for one in owned if not one.is_dir}
    folders = [one.path for one in owned if one.is_dir]
    return [path for folder in folders for path in list_plain(root, folder) if path not in named]


def _line_or_none(root: Path, path: str, room: int) -> str | None:
    try:
        return _line(root, path, room)
    except CannotRunError:
        # One picture in an owned folder keeps nobody from working on the texts beside it.
        return None
