"""Reads the sources of settings into entries `section.key -> raw value`.

Knows the paths and formats of the files, but not the meaning of values. The environment is an
argument. Problems are collected, not raised.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from state_store.documents.errors import InputError
from state_store.documents.strict_json import parse_toml
from state_store.values.lazy_dataclass import dataclass, field
from tools.settings.schema import KINDS, SECTIONS, STATE_DIR

PROJECT_FILE = "tidegate.toml"
SOURCE_FILE = "aesop.config.json"
PREFIX = "TIDEGATE_"
_STATE_VARIABLE = "TIDEGATE_STATE_DIR"  # names the folder
_STATE_NAMES = (STATE_DIR, "state_root")
# The flat keys of the original project. Other keys in its file belong to its other tools.
_SOURCE_KEYS = {
    "backend": "backend.name",
    "model": "backend.model",
    "model_map": "backend.models",
    "base_url": "backend.base_url",
    "api_key_env": "backend.api_key_env",
    "is_local": "backend.is_local",
    "max_owned_bytes": "backend.max_owned_bytes",
    "max_retries": "backend.max_retries",
    "timeout_s": "backend.timeout_s",
    "tier": "backend.tier",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A value from a source. `spoken` is its name in messages. Its paths are relative to `base`.
    `is_text` marks a text to parse."""

    name: str
    raw: Any
    spoken: str
    base: Path
    is_text: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """The values of all sources, the weakest first, and their files. `problems` are wrong values,
    `unread` are unreadable files."""

    entries: list[Entry] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def read_files(
    project: Path, cwd: Path, config: Path | None, environ: Mapping[str, str], found: Found
) -> None:
    """Add the user's file, then the project's file or else `config`, to `found`."""
    if (user := user_file(environ)) is not None:
        _read_toml(user, found)
    if config is not None:
        reader = _read_source_file if config.suffix == ".json" else _read_toml
        if not reader(config, found):
            found.unread.append(f"{config} does not exist; name a config file that does")
        return
    for folder in (project, cwd):
        if _read_source_file(folder / SOURCE_FILE, found):
            break
    if not _read_toml(project / PROJECT_FILE, found):
        _read_pyproject(project / "pyproject.toml", found)


def original_config(files: Iterable[Path]) -> dict[str, Any]:
    """All keys of the original project's config among `files`; {} if there is none.

    Raises InputError if it cannot be read.
    """
    from state_store.documents.files import MissingFileError, read_json

    for path in files:
        if path.suffix == ".json":
            try:
                held = read_json(path)
            except MissingFileError:
                continue
            return held if isinstance(held, dict) else {}
    return {}


def user_file(environ: Mapping[str, str]) -> Path | None:
    """The user's config file on this platform; None without a home folder."""
    if sys.platform == "win32":
        home = environ.get("APPDATA", "")
    else:
        home = environ.get("XDG_CONFIG_HOME", "")
        if not Path(home).is_absolute() and environ.get("HOME"):
            home = str(Path(environ["HOME"]) / ".config")
    return Path(home) / "tidegate" / PROJECT_FILE if Path(home).is_absolute() else None


def from_environment(environ: Mapping[str, str], cwd: Path, found: Found) -> None:
    """Add the variables TIDEGATE_<SECTION>_<KEY>. An empty variable counts as unset."""
    known = {variable_of(one): one for one in KINDS if "." in one}
    for variable in sorted(environ):
        section, _, _ = variable.removeprefix(PREFIX).lower().partition("_")
        if not variable.startswith(PREFIX) or section not in SECTIONS or not environ[variable]:
            continue
        if variable == _STATE_VARIABLE:
            continue
        name = known.get(variable)
        if name is None:
            found.problems.append(f"{variable} is no known variable{nearest(variable, known)}")
        elif KINDS[name].parse is None:
            found.problems.append(f"{variable} cannot be set in the environment; use a file")
        else:
            found.entries.append(Entry(name, environ[variable], variable, cwd, is_text=True))


def variable_of(name: str) -> str:
    """The environment variable of a setting, such as TIDEGATE_LIMITS_MAX_WORKERS."""
    return PREFIX + name.replace(".", "_").upper()


def from_flags(flags: Mapping[str, Any], cwd: Path, found: Found) -> None:
    """Add the values of flags, by dotted name. None means not given."""
    for name, raw in flags.items():
        if raw is None:
            continue
        if name in KINDS:
            is_text = isinstance(raw, str) and KINDS[name].parse is not None
            found.entries.append(Entry(name, raw, f"the flag for {name}", cwd, is_text=is_text))
        else:
            found.problems.append(f"the flag for {name} sets no known key{nearest(name, KINDS)}")


def nearest(name: str, known: Mapping[str, Any]) -> str:
    """`; did you mean ...?`, or "" if no known name is similar."""
    from difflib import get_close_matches

    last = name.rpartition(".")[2]
    elsewhere = [one for one in known if one.rpartition(".")[2] == last]
    close = elsewhere or get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _read_toml(path: Path, found: Found) -> bool:
    text = _text_of(path, found)
    if text is not None:
        found.files.append(path)
        table = _parse_toml(path, text, found)
        found.entries.extend(_entries(path, table, str(path), found))
    return text is not None


def _read_pyproject(path: Path, found: Found) -> None:
    text = _text_of(path, found)
    if text is None or "tidegate" not in text:
        return  # most files have no table of ours, so they are not parsed
    tool = _parse_toml(path, text, found).get("tool")
    table = tool.get("tidegate") if isinstance(tool, dict) else None
    if isinstance(table, dict):
        found.files.append(path)
        found.entries.extend(_entries(path, table, f"{path} [tool.tidegate]", found))
    elif table is not None:
        found.problems.append(f"{path}: tool.tidegate must be a table")


def _text_of(path: Path, found: Found) -> str | None:
    from state_store.documents.files import MissingFileError, read_text

    try:
        return read_text(path)
    except MissingFileError:
        return None
    except InputError as error:
        found.unread.extend(error.problems)
        return ""


def _parse_toml(path: Path, text: str, found: Found) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except ValueError as error:
        found.unread.append(f"{path} is not valid TOML: {error}")
    return {}


def _entries(path: Path, table: Mapping[str, Any], spoken: str, found: Found) -> Iterator[Entry]:
    for name, raw, known in _flattened(table):
        if name in KINDS:
            yield Entry(name, raw, f"{spoken}: {name}", path.parent)
        elif name in SECTIONS:
            found.problems.append(f"{spoken}: {name} must be a table of keys")
        else:
            word = "key" if "." in name or not isinstance(raw, dict) else "section"
            found.problems.append(f"{spoken}: {name} is no known {word}{nearest(name, known)}")


def _flattened(table: Mapping[str, Any]) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    for name, raw in table.items():
        if name in SECTIONS and isinstance(raw, dict):
            yield from _keys(name, raw)
        elif name in _STATE_NAMES:
            yield STATE_DIR, raw, KINDS
        else:
            yield name, raw, SECTIONS if isinstance(raw, dict) else KINDS


def _keys(section: str, table: Mapping[str, Any]) -> Iterator[tuple[str, Any, Mapping[str, Any]]]:
    for key, raw in table.items():
        name = f"{section}.{key}"
        if name in SECTIONS and isinstance(raw, dict):
            yield from _keys(name, raw)
        else:
            yield name, raw, {**SECTIONS, **KINDS} if isinstance(raw, dict) else KINDS


def _read_source_file(path: Path, found: Found) -> bool:
    from state_store.documents.files import MissingFileError, read_json

    try:
        document = read_json(path)
    except MissingFileError:
        return False
    except InputError as error:
        found.unread.extend(error.problems)
        return True
    found.files.append(path)
    if isinstance(document, dict):
        found.entries.extend(_source_entries(path, document, found))
    else:
        found.unread.append(f"{path} must hold a JSON object")
    return True


def _source_entries(path: Path, document: Mapping[str, Any], found: Found) -> Iterator[Entry]:
    from difflib import get_close_matches

    nested = document.get("backend")
    backend = nested if isinstance(nested, dict) else document
    given = document.get("limits")
    limits = {} if given is None else given
    if not isinstance(limits, dict):
        found.problems.append(f"{path}: limits must be an object")
        limits = {}
    for key in limits:  # a misspelt ceiling would not protect the user
        name = f"limits.{key}"
        close = get_close_matches(name.lower(), KINDS, n=1, cutoff=0.9)
        if name not in KINDS and close:
            problem = f"{path}: {name} is no known key; did you mean {close[0]}?"
            found.problems.append(problem)
    values = [(name, key, backend[key]) for key, name in _SOURCE_KEYS.items() if key in backend]
    values += [(f"limits.{key}", f"limits.{key}", limits[key]) for key in limits]
    values += [(STATE_DIR, key, document[key]) for key in _STATE_NAMES if key in document]
    for name, key, raw in values:
        if name in KINDS:
            yield Entry(name, raw, f"{path}: {key}", path.parent)
