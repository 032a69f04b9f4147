"""Parses the JSON that agent programs print line by line or write into a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from driver.filesystem.open_folders import NotPlainError
from driver.filesystem.safe_file_access import open_plain
from state_store.documents import strict_json
from state_store.documents.strict_json import parse_foreign

MAX_VERDICT_BYTES = 2**20


def object_in(text: str) -> dict[str, Any] | None:
    """`text` parsed as a JSON object; None if it is not."""
    try:
        value = parse_foreign(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def answer_in(text: str) -> dict[str, Any] | None:
    """A decisive answer parsed strictly as a JSON object. None also if parsers may differ, for
    example on a duplicate key."""
    try:
        value = strict_json.parse(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def objects_in(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """The lines that are JSON objects, parsed."""
    return (found for line in lines if (found := object_in(line)) is not None)


def text_lines(path: Path | None, most: int, instead: str = "") -> Iterator[str]:
    """Yields the lines of a text file that an agent may have written. A line of more than `most`
    characters comes in pieces. A pipe or a link in the place of the file is never opened; then the
    lines of `instead` count."""
    with ExitStack() as stack:
        try:
            opened = path and stack.enter_context(open_plain(path.parent, path.name))
        except (OSError, NotPlainError):
            opened = None
        if not opened:
            yield from instead.splitlines()
            return
        text = TextIOWrapper(opened, encoding="utf-8", errors="replace", newline="\n")
        yield from iter(partial(text.readline, most), "")


def bytes_of(path: Path, most: int) -> bytes:
    """The content of a file that an agent may have written.

    Raises ValueError if it is larger than `most` bytes or not a regular file, because reading a
    pipe or a device could block. Raises OSError if it cannot be read.
    """
    try:
        with open_plain(path.parent, path.name) as file:
            content = file.read(most + 1)
    except NotPlainError as error:
        raise ValueError("it is not a regular file") from error
    if len(content) > most:
        raise ValueError(f"it is larger than {most} bytes")
    return content


def read_verdict(path: Path) -> tuple[dict[str, Any] | None, str]:
    """The JSON object in a verdict file, and a warning if there is none."""
    try:
        found = strict_json.parse(bytes_of(path, MAX_VERDICT_BYTES).decode("utf-8"))
    except FileNotFoundError:
        return None, "there is no verdict file"
    except (OSError, ValueError) as error:
        return None, f"the verdict file cannot be used ({error})"
    return (found, "") if isinstance(found, dict) else (None, "the verdict file is no JSON object")
