"""Loads the settings of a run from flags, environment and files.

No other module reads the environment or config files. `load` merges per key, flag > environment >
project file > user file > default, and reports all problems at once. Backends interpret their own
values.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from state_store.documents.errors import InputError
from state_store.sql.addresses import Address, address_of, keep_rows
from state_store.values.lazy_dataclass import dataclass, field, fields
from tools.settings.kinds import ARGV, PATHS, PHASES, TokenPrice
from tools.settings.schema import (
    KINDS,
    OPTIONAL,
    PRICES,
    REVIEW_BACKEND,
    SANDBOX_ROLES,
    SECTIONS,
    STATE_DIR,
    AuditSettings,
    BackendSettings,
    CheckpointSettings,
    LimitsSettings,
    NotifySettings,
    PipelineSettings,
    ReviewSettings,
    RoleSandboxSettings,
    SandboxSettings,
    SecretsSettings,
    ShipSettings,
    StateSettings,
    VerifySettings,
    WorkspaceSettings,
)
from tools.settings.sources import Entry, Found, from_environment, from_flags, read_files

STATE_VARIABLES = ("TIDEGATE_STATE_DIR", "AESOP_STATE_ROOT")


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a run. `environ` is their environment, `files` are the config files read, the
    weakest first. `review_backend` is None if none of its keys is set; then the backend also
    reviews."""

    backend: BackendSettings
    verify: VerifySettings
    workspace: WorkspaceSettings
    review: ReviewSettings
    pipeline: PipelineSettings
    ship: ShipSettings
    limits: LimitsSettings
    checkpoint: CheckpointSettings
    audit: AuditSettings
    notify: NotifySettings
    secrets: SecretsSettings
    state: StateSettings
    state_dir: Path
    environ: Mapping[str, str] = field(repr=False)
    files: tuple[Path, ...] = ()
    review_backend: BackendSettings | None = None
    prices: Mapping[str, TokenPrice] = field(default_factory=lambda: MappingProxyType({}))
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    sandbox_roles: Mapping[str, RoleSandboxSettings] = field(
        default_factory=lambda: MappingProxyType({})
    )


def load(
    *,
    project: Path | None = None,
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """Read and check all settings. `environ` defaults to the current one, `project` to the top of
    the repository of `cwd`.

    `config` replaces the project's files. `flags` has dotted names ("limits.max_workers",
    "state_dir"); None means not given. Raises InputError with all problems of all sources.
    """
    where = _Where.of(project, config, environ, cwd)
    found = where.read()
    from_environment(where.environ, where.cwd, found)
    from_flags(flags or {}, where.cwd, found)
    values = _accepted(found, where.environ)
    if values.get("verify.known_red") and values.get("verify.red_first") == "off":
        found.problems.append(
            'verify.known_red needs runs on the base, and verify.red_first = "off" runs none:'
            " leave one of them out"
        )
    if problems := found.unread + found.problems:
        raise InputError(problems)
    sections = {name: _section(name, values) for name in SECTIONS if "." not in name}
    roles = {role: _section(f"sandbox.{role}", values) for role in SANDBOX_ROLES}
    has_reviewer = any(name.startswith(f"{REVIEW_BACKEND}.") for name in values)
    state_dir = _state_dir((flags or {}).get(STATE_DIR), values.get(STATE_DIR), where)
    keep_rows(state_dir, _address(sections["state"]))
    return Settings(
        **sections,
        state_dir=state_dir,
        environ=where.environ,
        files=tuple(found.files),
        review_backend=_section(REVIEW_BACKEND, values) if has_reviewer else None,
        prices=values.get(PRICES, MappingProxyType({})),
        sandbox_roles=MappingProxyType(roles),
    )


def process_environment() -> Mapping[str, str]:
    """The present environment of this process, read-only."""
    return MappingProxyType(dict(os.environ))


def resolve_state_dir(
    flag: str | Path | None = None,
    *,
    project: Path | None = None,
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Path:
    """The state folder of `load`, without checking other settings.

    No file is read if the flag or the environment decides, so a user can stop a run in spite of a
    broken file. Raises InputError if a needed file cannot be read.
    """
    where = _Where.of(project, config, environ, cwd)
    if flag is not None and not str(flag).strip():
        raise InputError("the state folder's name is empty; name a folder or leave it out")
    if flag is not None or where.state_variable:
        return _state_dir(flag, None, where)
    read = where.read()
    found = Found([entry for entry in read.entries if entry.name == STATE_DIR])
    configured = _accepted(found, where.environ).get(STATE_DIR)
    if problems := read.unread + found.problems:
        raise InputError(problems)
    return _state_dir(None, configured, where)


def note_store(flag: str | None, config: str | None) -> None:
    """Make known where the rows of the state folder are, in a program that tells faults of the
    settings in its own way."""
    with suppress(InputError):
        resolve_store(flag, Path(config) if config else None)


def resolve_store(flag: str | Path | None = None, config: Path | None = None) -> Path:
    """The state folder of `load`, for a program that opens its store: other settings are not
    checked. Raises InputError if a needed file cannot be read."""
    where = _Where.of(None, config, None, None)
    read = where.read()
    from_environment(where.environ, where.cwd, read)
    names = {STATE_DIR, *(name for name in KINDS if name.startswith("state."))}
    found = Found([entry for entry in read.entries if entry.name in names])
    values = _accepted(found, where.environ)
    if problems := read.unread + found.problems:
        raise InputError(problems)
    state_dir = _state_dir(flag, values.get(STATE_DIR), where)
    keep_rows(state_dir, _address(_section("state", values)))
    return state_dir


def address_of_settings() -> Address | None:
    """The address of [state] url; None if it is not set. Raises as `resolve_store`."""
    return address_of(resolve_store())


def _address(state: StateSettings) -> Address | None:
    return Address(state.url, state.schema) if state.url else None


def place_state_dir(
    configured: str | Path | None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Path:
    """The state folder from the environment, else the caller's `state_root`, else `state` at the
    top of the repository."""
    return _state_dir(None, configured, _Where.of(None, None, environ, cwd))


@dataclass(frozen=True, slots=True)
class _Where:
    project: Path
    config: Path | None
    environ: Mapping[str, str]
    cwd: Path

    @classmethod
    def of(
        cls,
        project: Path | None,
        config: Path | None,
        environ: Mapping[str, str] | None,
        cwd: Path | None,
    ) -> _Where:
        here = Path.cwd() if cwd is None else cwd.absolute()
        variables = dict(os.environ if environ is None else environ)
        named = None if config is None else here / config
        project = here / project if project else top_of(here)
        return cls(project, named, MappingProxyType(variables), here)

    def read(self) -> Found:
        found = Found()
        read_files(self.project, self.cwd, self.config, self.environ, found)
        return found

    @property
    def state_variable(self) -> str:
        return next(filter(None, (self.environ.get(name) for name in STATE_VARIABLES)), "")


def _state_dir(flag: str | Path | None, configured: str | Path | None, where: _Where) -> Path:
    if chosen := flag or where.state_variable:
        return where.cwd / _expanded(Path(chosen), where.environ)
    # Not of the project: a program that names no project has to find the same folder.
    top = top_of(where.cwd)
    if configured:
        root = where.cwd / (where.environ.get("AESOP_ROOT") or top)
        return root / _expanded(Path(configured), where.environ)
    return top / "state"


def top_of(folder: Path) -> Path:
    """The top of the repository that contains a folder; outside of repositories the folder itself.
    Starts no program: a halt must not wait for git."""
    for each in (folder, *folder.parents):
        git = each / ".git"
        with suppress(OSError):  # a folder above that this user may not read
            if git.is_file() or os.path.lexists(git / "HEAD"):
                return each
    return folder


def _accepted(found: Found, environ: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for entry in found.entries:
        kind = KINDS[entry.name]
        try:
            values[entry.name] = _value(entry, environ)
        except (ValueError, OverflowError):
            shown = "" if kind.private else f", not {repr(entry.raw)[:60]}"
            found.problems.append(f"{entry.spoken} must be {kind.says}{shown}")
    return values


def _value(entry: Entry, environ: Mapping[str, str]) -> Any:
    if entry.raw is None and entry.name in OPTIONAL:
        return None
    kind = KINDS[entry.name]
    raw = kind.parse(entry.raw) if entry.is_text and kind.parse else entry.raw
    value = kind.accept(raw)
    if isinstance(value, Path) and entry.name != STATE_DIR:
        return entry.base / _expanded(value, environ)
    if kind is PATHS:
        return tuple(entry.base / _expanded(path, environ) for path in value)
    if kind is PHASES:
        return tuple(_placed_phase(table, entry.base) for table in value)
    if kind is ARGV and value and not entry.is_text:
        return (_placed(value[0], entry.base), *value[1:])
    return value


def _placed_phase(table: Mapping[str, Any], base: Path) -> Mapping[str, Any]:
    """Resolves the program of a phase's backend against the folder of its file. `driver.pipeline`
    reports faults of such a table."""
    backend = table.get("backend")
    match backend.get("command") if isinstance(backend, Mapping) else None:
        case [str(program), *words]:
            command = [_placed(program, base), *words]
            return {**table, "backend": {**(backend or {}), "command": command}}
    return table


def _placed(program: str, base: Path) -> str:
    """Resolves a relative path against the folder of its file. A bare name stays, for PATH."""
    return str(base / program) if "/" in program and not Path(program).is_absolute() else program


def _expanded(path: Path, environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME") or environ.get("USERPROFILE")
    if path.parts[:1] == ("~",) and home:
        return Path(home, *path.parts[1:])
    return path


def _section(section: str, values: Mapping[str, Any]) -> Any:
    shape = SECTIONS[section]
    named = {key.name: f"{section}.{key.name}" for key in fields(shape)}
    return shape(**{key: values[name] for key, name in named.items() if name in values})
