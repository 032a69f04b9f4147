"""The owned files of a workspace as lines for a prompt, within a budget of bytes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from driver.backends.http.patch_protocol import Shown, file_line, size_of
from driver.domain.ownership import OwnedPath, OwnershipError, parse_owned
from driver.filesystem.safe_file_access import NotPlainError, list_plain, read_plain
from state_store.documents.errors import CannotRunError, InputError


def show_owned(root: Path, names: tuple[str, ...], budget: int) -> Shown:
    """Read the owned files below `root`.

    Files named by the item must fit into `budget` bytes after JSON's escapes; those of owned
    folders are shown as far as there is room, and by name after that. Raises InputError for names
    that no item can own, CannotRunError for files that cannot be shown.
    """
    problems: list[str] = []
    parsed: dict[OwnedPath, None] = {}
    for name in names:
        try:
            parsed[parse_owned(name)] = None
        except OwnershipError as error:
            problems.append(str(error))
    if problems:
        raise InputError(problems)
    owned = tuple(parsed)
    lines = [_line(root, one.path, budget) for one in owned if not one.is_dir]
    used = size_of(lines)
    if used > budget:
        raise CannotRunError(
            f"the owned files exceed context budget: {used} bytes post-escape, {budget} allowed; "
            "raise [backend] max_owned_bytes or let the item own less"
        )
    hidden = []
    named = {one.path for one in owned if not one.is_dir}
    below = [path for one in owned if one.is_dir for path in list_plain(root, one.path)]
    for path in (path for path in below if path not in named):
        line = ""
        with suppress(CannotRunError):  # a picture among the texts does not stop the item
            line = _line(root, path, budget - used)
        size = size_of([line])
        if not line or used + size > budget:
            hidden.append(path)
            lines.append(file_line(path, None, None, "no text, or no room for it"))
        else:
            lines.append(line)
            used += size
    return Shown(owned, tuple(lines), frozenset(hidden))


def _line(root: Path, path: str, budget: int) -> str:
    try:
        content = read_plain(root, path, budget)
        return file_line(path, None if content is None else content.decode("utf-8"), content)
    except UnicodeDecodeError as error:
        raise NotPlainError(f"{path} is not UTF-8 text, which is all this backend sees") from error
    except OSError as error:
        raise CannotRunError(f"{path} cannot be read: {error}") from error
