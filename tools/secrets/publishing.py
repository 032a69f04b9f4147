"""What speaks against publishing a file: secrets that it has and its base has not. Pure.

Who published them before has published them; an item is only asked about what it adds.
"""

from __future__ import annotations

from collections.abc import Mapping

from tools.secrets.known_values import scan_known_values
from tools.secrets.placeholders import mask_secret
from tools.secrets.search import scan_blob


def objections(
    path: str, data: bytes, known: Mapping[str, str], base: bytes | None = None
) -> list[str]:
    """A sentence for each secret in `data`, without its value; none when it may be published.

    `known` are this machine's own secrets, name to value; `base` is the file as it was, None for
    a new one. The name of the file is looked at, too.
    """
    before = {match.match for match in scan_blob(path, base)} if base is not None else set()
    found = [
        f"{path}:{match.line} {match.rule} ({mask_secret(match.match)})"
        for match in scan_blob(path, data)
        if match.match not in before
    ]
    old = {one.name for one in scan_known_values(base, known)} if base is not None else set()
    found += [
        f"{path} holds the value of {one.name} ({one.disguise})"
        for one in scan_known_values(data, known)
        if one.name not in old
    ]
    return found + (_of_name(path, known) if base is None else [])


def _of_name(path: str, known: Mapping[str, str]) -> list[str]:
    name = path.encode("utf-8", "surrogateescape")
    return [
        *(f"the name of a file is a {match.rule}" for match in scan_blob("", name)),
        *(f"the name of a file holds the value of {one.name}"
          for one in scan_known_values(name, known)),
    ]  # fmt: skip
