"""What an agent CLI says of itself without asking its provider: its version, and whether it is
logged in. How it is started is its adapter's business."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from driver.execution.processes import Ending, Finished, could_not_run_reason
from driver.terminal.check_result import CheckResult, failed, passed, warned

Ask = Callable[..., Finished]

_LOG_IN_CODEX = "run codex login, or set CODEX_API_KEY"
_LOG_IN_CLAUDE = "run claude once and log in, or set ANTHROPIC_API_KEY"


def examine_cli(
    program: str, ask: Ask, login: Callable[[Ask], CheckResult] | None = None
) -> tuple[CheckResult, ...]:
    """`program` by its `--version`, and by `login` where it runs at all."""
    done = ask("--version")
    if done.exit_code != 0:
        remedy = f"run {program} --version by hand, and install it anew"
        return (failed("program", f"{program} does not run: {_why(done)}", remedy),)
    version = next(iter(done.stdout.split("\n")), "").strip()
    found = passed("program", f"{program}: {version[:80] or 'no version told'}")
    return (found,) if login is None else (found, login(ask))


def login_of_claude(ask: Ask) -> CheckResult:
    """As `claude auth status` says, which asks nobody."""
    if not _knows(ask, "auth", "status"):
        return warned("login", "this version cannot tell", "install a current Claude Code")
    done = ask("auth", "status")
    said = _json_object(done.stdout)
    if done.exit_code == 0 and said.get("loggedIn") is True:
        return passed("login", f"by {said.get('authMethod', 'means it does not tell')}")
    if said.get("loggedIn") is False:
        return failed("login", "claude is not logged in", _LOG_IN_CLAUDE)
    return warned("login", f"claude auth status: {_why(done)}", _LOG_IN_CLAUDE)


def login_of_codex(ask: Ask, *, has_key: bool) -> CheckResult:
    """As `codex login status` says, which asks nobody; `has_key` is that one is handed to it."""
    if has_key:
        return passed("login", "by a key in the environment")
    if not _knows(ask, "login", "status"):
        return warned("login", "this version cannot tell", "install a current Codex CLI")
    done = ask("login", "status")
    if done.exit_code == 0:
        return passed("login", _why(done))
    return failed("login", f"codex: {_why(done)}", _LOG_IN_CODEX)


def _knows(ask: Ask, *command: str) -> bool:
    # A version without this command would take its words for a prompt, and spend money on them.
    return " ".join(command) in ask(*command, "--help").stdout


def _json_object(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _why(done: Finished) -> str:
    if done.ending is not Ending.EXITED:
        return could_not_run_reason(done) or done.reason or "it did not end in time"
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return said[-1][:200] if said else f"exit {done.exit_code}, without a word"
