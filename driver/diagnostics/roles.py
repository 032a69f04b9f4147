"""Tells what the commands of each role see of this machine: variables, home, network, login."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from driver.backends.cli.local_driver import LocalDriver
from driver.backends.registry import driver_from
from driver.execution.command import child_environment
from driver.homes.compiled import GO
from driver.terminal.check_result import CheckResult, passed, warned
from driver.walls.wall import NETWORK_OF, Level, Network, Role
from state_store.documents.errors import TidegateError
from tools.settings.load import Settings
from tools.settings.run_sections import HOST


def check_roles(settings: Settings) -> Iterator[CheckResult]:
    """Tells a line for each role, with a warning if its commands have the user's own home. Raises
    nothing."""
    agent = None
    with suppress(TidegateError):  # the check of the backends tells it
        agent = driver_from(settings.backend, settings.environ)
    named, lent = settings.verify.env, list[str]()
    of_agent: tuple[str, ...] = ()
    if isinstance(agent, LocalDriver):
        of_agent = (*agent.parent_names, *agent.env_names)
        lent = [file.name for file in agent.login_files() if file.source.exists()]
    given = settings.sandbox
    own_home, is_open = given.home == HOST, given.level in (Level.LIMITS, Level.NONE)
    for role in Role:
        is_agent, of_role = role is Role.AGENT, settings.sandbox_roles.get(role)
        seen = child_environment(settings.environ, of_agent if is_agent else named)
        asked = Network.HOST if is_open else (of_role and of_role.network) or NETWORK_OF[role]
        parts = [
            f"variables {', '.join(sorted(seen))}",
            f"network {asked}",
            "your own home" if own_home else "a private home",
        ]
        if is_agent and not own_home:
            parts.append(f"copies of {', '.join(lent)}" if lent else "no login")
        name, detail = f"sees.{role}", "; ".join(parts)
        if given.home == HOST:
            remedy = "set [sandbox] home to private, so that no command finds your keys there"
            yield warned(name, detail, remedy)
        else:
            yield passed(name, detail)


def check_caches(settings: Settings, top: Path | None) -> Iterator[CheckResult]:
    """Warns if agents and first tests of a Go project compile everything anew, although the user
    has a cache of it."""
    kept = Path(settings.environ.get("HOME") or "/nonexistent", GO)
    given = settings.sandbox
    is_open = given.home == HOST or given.level in (Level.LIMITS, Level.NONE)
    if is_open or top is None or not (top / "go.mod").is_file() or not kept.is_dir():
        return
    roles = (Role.AGENT, Role.TEST)
    shown = [settings.sandbox_roles.get(role) for role in roles]
    alone = [
        str(role)
        for role, one in zip(roles, shown, strict=True)
        if one is None or not any(kept.is_relative_to(path) for path in one.writable)
    ]
    if alone:
        yield warned(
            "caches",
            "inside of walls, Go compiles everything anew for each agent and for the first run of"
            " each test",
            f'set writable = ["~/{GO}"] in {" and ".join(f"[sandbox.{role}]" for role in alone)},'
            " if code of an item may write to what your own builds read",
        )
