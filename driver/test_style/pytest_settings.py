"""The settings of pytest in its configuration files, as far as plain text shows. Pure."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping

CONFIGS = (
    *("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini"),
    "setup.cfg",
)


def config_of(folder: str, texts: Mapping[str, str]) -> str:
    """The texts of the configuration files in a folder."""
    return "\n".join(texts.get(posixpath.join(folder, name), "") for name in CONFIGS)


def setting(config: str, name: str) -> list[str]:
    """The words of a setting in a configuration, as far as plain text shows."""
    return re.findall(r"[^\s\[\]\"',]+", _text_of(config, name))


def added_options(config: str) -> list[str]:
    """The options in the configuration's `addopts`, as far as plain text shows."""
    text = _text_of(config, "addopts")
    try:
        if text.startswith("["):
            return shlex.split(text[1:-1].replace(",", " "), comments=True)
        words = shlex.split(text, comments=True)
        return shlex.split(words[0]) if len(words) == 1 else words
    except ValueError:
        return []


def _text_of(config: str, name: str) -> str:
    """The text of a setting: a list, or lines; "" for none."""
    found = re.search(rf"^{name}\s*=\s*(\[[^\]]*\]|.*(?:\n[ \t]+\S.*)*)", config, re.M)
    return found[1].strip() if found else ""
