"""Finds agents whose transcripts have not grown for a while.

For agents that other programs started, with a transcript `agent-<id>.jsonl` each. Tidegate ends its
own agents by its time limits.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if not __package__:  # run as a file, or imported by its bare name
    _ROOT = str(Path(__file__).resolve().parents[1])
    if __name__ == "__main__":
        sys.path[0] = _ROOT  # import from the checkout, not from this folder
    else:
        from importlib import import_module

        sys.path.append(_ROOT)
        sys.modules[__name__] = import_module("tools.stall_check")

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

ROOT_VARIABLE = "AESOP_TRANSCRIPTS_ROOT"
THRESHOLD_S = 600
OK, STALE, DEAD = "ok", "stale", "dead"
ACTIONS = {
    STALE: ("look at the end of the transcript", "wait, or ask the agent for its state"),
    DEAD: ("end the agent's process, if there is one", "keep its files, and start its task anew"),
}
STALLED = 1


def scan_transcripts(
    transcripts_root: str | Path,
    threshold_seconds: float,
    active_from_dir: str | Path | None = None,
) -> list[dict[str, Any]] | None:
    """The agents by name, each with `agent`, `transcript`, `mtime_age_s`, `verdict`,
    `suggested_action`, `last_mtime` and `active`; None if there is no such folder.

    Stale: older than the threshold. Dead: older than twice the threshold. With `active_from_dir`
    only an active agent is stale or dead.
    """
    root = Path(transcripts_root)
    if not root.is_dir():
        return None
    return list(_agents(root, threshold_seconds, active_from_dir))


def sanitize_agent_id(agent_id: str, filename: str) -> str | None:
    """The id, or None with a warning on stderr if it has other characters than letters, digits, `_`
    and `-`."""
    from driver.terminal.safe_text import safe_line
    from state_store.values.names import is_agent_id

    if is_agent_id(agent_id):
        return agent_id
    why = f"the agent id {agent_id!r} has other characters than letters, digits, _ and -"
    print(safe_line(f"WARNING: {filename} is left out: {why}"), file=sys.stderr)
    return None


def verify_path_containment(resolved_path: str | Path, base_dir: str | Path) -> bool:
    """True for a path in `base_dir`, after all links."""
    return Path(os.path.realpath(resolved_path)).is_relative_to(os.path.realpath(base_dir))


def get_transcripts_root() -> Path:
    """The folder of transcripts: AESOP_TRANSCRIPTS_ROOT, else `~/.claude/projects`."""
    from tools.settings.load import process_environment

    named = process_environment().get(ROOT_VARIABLE)
    return Path(named) if named else Path.home() / ".claude" / "projects"


def is_agent_active(agent_id: str, active_from_dir: str | Path | None) -> bool | None:
    """True if the folder has `<id>.task` or `<id>.status`; None without a folder."""
    if active_from_dir is None:
        return None
    paths = [Path(active_from_dir) / f"{agent_id}{ending}" for ending in (".task", ".status")]
    return any(path.exists() and verify_path_containment(path, active_from_dir) for path in paths)


def emit_recovery_advisories(results: Iterable[Mapping[str, Any]] | None) -> Iterator[str]:
    """Yields JSON for each stale or dead agent: `agent`, `verdict`, `age_s`, and the steps in
    `suggested_action`."""
    import json

    for found in results or ():
        if found["verdict"] in ACTIONS:
            steps = list(ACTIONS[found["verdict"]])
            advice = {"agent": found["agent"], "verdict": found["verdict"]}
            age = found["mtime_age_s"]
            yield json.dumps({**advice, "age_s": age, "suggested_action": steps})


def write_recovery_files(
    results: Iterable[Mapping[str, Any]] | None, recovery_dir: str | Path | None
) -> int:
    """Write each advice to `recovery-<id>.json`. Returns the count, 0 without results or folder."""
    from state_store.documents.files import write_text_atomic
    from state_store.documents.strict_json import parse_foreign

    if not results or not recovery_dir:
        return 0
    count = 0
    for advice in emit_recovery_advisories(results):
        name = sanitize_agent_id(parse_foreign(advice)["agent"], str(recovery_dir))
        if name is not None:
            write_text_atomic(Path(recovery_dir) / f"recovery-{name}.json", f"{advice}\n")
            count += 1
    return count


def print_human_table(results: Sequence[Mapping[str, Any]] | None) -> None:
    """Print a line for each agent."""
    from driver.terminal.safe_text import safe_line

    if not results:
        print("no transcripts found")
        return
    width = max(len("agent"), *(len(found["agent"]) for found in results))
    print(f"{'agent':<{width}}  verdict    age_s  suggested action")
    for found in results:
        action, age = found["suggested_action"] or "-", found["mtime_age_s"]
        line = f"{found['agent']:<{width}}  {found['verdict']:<7}  {age:>7}  {action}"
        print(safe_line(line))


def print_json_output(results: Sequence[Mapping[str, Any]] | None) -> None:
    """Print the agents as one JSON list."""
    import json

    print(json.dumps(list(results or ()), indent=2))


def build_parser() -> argparse.ArgumentParser:
    from driver.cli.flags import Parser

    parser = Parser(prog="stall_check.py", description="Which agents have stopped writing?")
    add = parser.add_argument
    add("--transcripts-root", metavar="DIR", help=f"(default: {ROOT_VARIABLE}, ~/.claude/projects)")
    add("--threshold-seconds", metavar="S", type=float, default=THRESHOLD_S, help="(default: 600)")
    add("--exit-nonzero-on-stall", action="store_true", help="exit 1 if an agent is stale or dead")
    add("--active-from", metavar="DIR", help="only agents with <id>.task or <id>.status count")
    add("--emit-recovery", action="store_true", help="print advice in JSON instead of the table")
    add("--recovery-dir", metavar="DIR", help="also write the advice to files in this folder")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The program. Returns exit code 1 only with --exit-nonzero-on-stall."""
    from tools.program import program

    return program(build_parser(), _run, argv)


def _run(asked: argparse.Namespace) -> int:
    from driver.terminal.safe_text import safe_line
    from state_store.documents.errors import InputError

    if not 0 <= asked.threshold_seconds < float("inf"):
        raise InputError(
            f"--threshold-seconds is a number of at least 0, not {asked.threshold_seconds}"
        )
    root = asked.transcripts_root or get_transcripts_root()
    results = scan_transcripts(root, asked.threshold_seconds, asked.active_from)
    write_recovery_files(results, asked.recovery_dir)
    if asked.emit_recovery:
        for advice in emit_recovery_advisories(results):
            print(safe_line(advice))
    elif asked.json:
        print_json_output(results)
    else:
        print_human_table(results)
    stalled = any(found["verdict"] in ACTIONS for found in results or ())
    return STALLED if stalled and asked.exit_nonzero_on_stall else 0


def _agents(
    root: Path, threshold_s: float, active_from: str | Path | None
) -> Iterator[dict[str, Any]]:
    import stat
    import time
    from datetime import UTC, datetime

    for path in sorted(root.rglob("agent-*.jsonl")):
        agent = sanitize_agent_id(path.stem.removeprefix("agent-"), path.name)
        if agent is None or not verify_path_containment(path, root):
            continue
        try:
            found = path.stat()
        except OSError:  # removed meanwhile
            continue
        if not stat.S_ISREG(found.st_mode):
            continue
        written = found.st_mtime
        age, active = int(time.time() - written), is_agent_active(agent, active_from)
        verdict = _verdict(age, threshold_s) if active is not False else OK
        yield {
            "agent": agent,
            "transcript": str(path),
            "mtime_age_s": age,
            "verdict": verdict,
            "suggested_action": "; ".join(ACTIONS[verdict]) if verdict in ACTIONS else None,
            "last_mtime": datetime.fromtimestamp(written, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "active": active,
        }


def _verdict(age_s: float, threshold_s: float) -> str:
    """Ok up to the threshold, stale up to twice the threshold, then dead."""
    if age_s > 2 * threshold_s:
        return DEAD
    return STALE if age_s > threshold_s else OK


if __name__ == "__main__":
    sys.exit(main())
