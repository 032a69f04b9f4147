"""Finds objections to publishing a file: new secrets. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tools.secret_rules.known_values import scan_known_values
from tools.secret_rules.placeholders import mask_secret
from tools.secret_rules.search import Match, scan_blob


def objections(
    path: str, data: bytes, known: Mapping[str, str], base: bytes | None = None
) -> list[str]:
    """Returns a sentence for each new secret in `data` or in the file's name, without its value.

    `known` maps the names of this machine's secrets to their values. `base` is the previous
    content, None for a new file.
    """
    before = {match.match for match in _blocking(path, base)} if base is not None else set()
    found = [
        f"{path}:{match.line} {match.rule} ({mask_secret(match.match)})"
        for match in _blocking(path, data)
        if match.match not in before
    ]
    old = {one.name for one in scan_known_values(base, known)} if base is not None else set()
    found += [
        f"{path} holds the value of {one.name} ({one.disguise})"
        for one in scan_known_values(data, known)
        if one.name not in old
    ]
    if base is not None:
        return found
    name = path.encode("utf-8", "surrogateescape")
    return [
        *found,
        *(f"the name of a file is a {match.rule}" for match in _blocking("", name)),
        *(f"the name of a file holds the value of {one.name}"
          for one in scan_known_values(name, known)),
    ]  # fmt: skip


def _blocking(path: str, data: bytes) -> list[Match]:
    return [match for match in scan_blob(path, data) if match.is_fatal]
