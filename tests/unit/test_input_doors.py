"""Foreign text has one parser, foreign files one door, and every external command a time limit.

The rules are read from the syntax trees. A name in a list below is an exception, with its reason.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Sized
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

Rule = Callable[[ast.AST], Sized]
OWN_STORE = "reads only what this module's package wrote into the store, and has to be quick"
PARSER = "is the parser"
CHILD = "is a script that runs in another process, and imports nothing of Tidegate"
AT_ONCE = "starts at once: the modules of the door cost more than its answer"
WALLS = "reads what the walls' own processes told, within their limits"
OWN_TEXT = "reads a text that Tidegate ships"
PARTS = "reads one value of a longer text, which has no end to check"

PARSE_JSON = {
    "state_store/documents/strict_json.py": PARSER,
    "state_store/documents/json_document.py": PARTS,
    "state_store/tracker/item_search.py": PARTS,
    "tools/importers/front_matter.py": PARTS,
    "state_store/archives/members.py": OWN_STORE,
    "state_store/database/event_rows.py": OWN_STORE,
    "state_store/database/publications.py": OWN_STORE,
    "state_store/sql/unshipped.py": OWN_STORE,
    "state_store/views/store_summary.py": OWN_STORE,
    "driver/python_imports/probe.py": CHILD,
    "driver/walls/attempts.py": CHILD,
    "driver/walls/choice.py": WALLS,
    "driver/walls/escape.py": WALLS,
    "driver/cli/status_facts.py": AT_ONCE,
    "driver/cli/demo.py": OWN_TEXT,
    "driver/test_command/build_scripts.py": "is below the parser, and refuses nothing",
    "tools/secret_rules/hidden_values.py": "reads files of keys, of which it refuses nothing",
}
PARSERS = {"json": {"load", "loads", "JSONDecoder"}, "tomllib": {"load", "loads"}}

OWN_PACKAGE = "reads files that were installed with Tidegate"
KERNEL = "reads what the kernel tells in /proc, /sys or a control group"
DOOR = "is a door for files of others"
WRITTEN = "reads the file that it has just written, or a temporary file of its own"
HELD = "reads the tracker, which was found to be a regular file before"
USERS = "reads a hook that the user had git run"
TERMINAL = "opens the terminal"
LOCK = "opens a file for locks, in the state folder, and reads nothing"
OPEN_FILES = {
    "state_store/documents/files.py": DOOR,
    "driver/filesystem/tree.py": "copies files that were found to be regular before",
    "state_store/tracker/spliced_file.py": HELD,
    "state_store/documents/clock.py": KERNEL,
    "driver/filesystem/clock.py": WRITTEN,
    "driver/filesystem/temporary.py": KERNEL,
    "state_store/documents/locks.py": KERNEL,
    "state_store/archives/files.py": "reads an archive that was found to be a regular file",
    "driver/walls/groups.py": KERNEL,
    "driver/walls/machine.py": KERNEL,
    "driver/walls/breaches.py": KERNEL,
    "driver/execution/process_identity.py": KERNEL,
    "driver/execution/process_marks.py": KERNEL,
    "driver/execution/process_table.py": KERNEL,
    "driver/execution/streams.py": KERNEL,
    "driver/walls/attempts.py": CHILD,
    "driver/python_imports/probe.py": CHILD,
    "driver/walls/choice.py": OWN_PACKAGE,
    "driver/live_page/page.py": OWN_PACKAGE,
    "driver/cli/demo.py": OWN_PACKAGE,
    "tools/starter.py": OWN_PACKAGE,
    "driver/verification/import_question.py": OWN_PACKAGE,
    "driver/walls/inside.py": WALLS,
    "driver/preparation/layered_copies.py": WRITTEN,
    "driver/workspace/clone_context.py": WRITTEN,
    "driver/publishing/hook_gate.py": USERS,
    "driver/terminal/progress.py": TERMINAL,
    "driver/run_state/test_turns.py": LOCK,
    "driver/cli/status_facts.py": AT_ONCE,
    "tools/settings/quick.py": AT_ONCE,
}

# A fork server lives as long as its owner, who ends it; so does a process without a supervisor.
WITHOUT_LIMIT = {
    "driver/execution/supervised.py": "subprocess.Popen",
    "driver/execution/processes.py": "subprocess.Popen",
}


@functools.cache
def trees() -> dict[str, ast.Module]:
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for layer in ("driver", "tools", "state_store")
        for path in sorted((ROOT / layer).rglob("*.py"))
    }


@functools.cache
def calls(tree: ast.AST) -> list[tuple[str, ast.Call]]:
    """Each call with the text of what is called."""
    return [(name_of(node.func), node) for node in ast.walk(tree) if isinstance(node, ast.Call)]


def name_of(called: ast.expr) -> str:
    """The text of an expression; a name is not handed to the slow printer of syntax trees."""
    if isinstance(called, ast.Name):
        return called.id
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name | ast.Attribute):
        return f"{name_of(called.value)}.{called.attr}"
    return ast.unparse(called)


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((one.value for one in call.keywords if one.arg == name), None)


def is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def parsers_in(tree: ast.AST) -> set[str]:
    found = {
        f"{node.value.id}.{node.attr}"
        for _, call in calls(tree)
        if isinstance(node := call.func, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.attr in PARSERS.get(node.value.id, ())
    }
    from_imports = {
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in PARSERS
        for alias in node.names
        if alias.name in PARSERS[node.module]
    }
    return found | from_imports


def reads(tree: ast.AST) -> list[str]:
    """The calls that open a file by its path and read it, past the doors."""
    found = []
    for name, call in calls(tree):
        last, of = name.rpartition(".")[2], call.func
        mode = call.args[1:] if isinstance(of, ast.Name) else call.args
        given = mode[0] if mode else keyword(call, "mode")
        is_text = isinstance(given, ast.Constant) and isinstance(given.value, str)
        word = str(given.value) if isinstance(given, ast.Constant) else "r"
        opens = last == "open" and name != "os.open" and (given is None or is_text)
        if (last in ("read_text", "read_bytes") and isinstance(of, ast.Attribute)) or (
            opens and ("r" in word or "+" in word or given is None)
        ):
            found.append(name)
    return found


def without_limit(tree: ast.AST) -> list[str]:
    """The calls that start a program and may wait for it for ever."""
    found = []
    for name, call in calls(tree):
        last = name.rpartition(".")[2]
        starts = name.startswith("subprocess.") and last in ("run", "call", "check_call",
                                                              "check_output", "Popen")  # fmt: skip
        if (starts and (last == "Popen" or is_none(keyword(call, "timeout")))) or (
            last == "capture" and is_none(keyword(call, "timeout_s"))
        ):
            found.append(name)
        elif last == "Command" and call.args and not isinstance(call.args[0], ast.Starred):
            given = call.args[3] if len(call.args) > 3 else keyword(call, "timeout_s")
            found += [name] if is_none(given) else []
    return found


def shells(tree: ast.AST) -> list[str]:
    """The calls that hand a text to a shell."""
    named = ("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput")
    return [
        name
        for name, call in calls(tree)
        if name in named or (name.startswith("subprocess.") and not is_none(keyword(call, "shell")))
    ]


def test_json_and_toml_have_one_parser() -> None:
    using = {name for name, tree in trees().items() if parsers_in(tree)}
    assert using == PARSE_JSON.keys()


def test_files_of_others_are_read_through_a_door() -> None:
    """A pipe, a device or an endless file is nowhere waited for."""
    using = {name for name, tree in trees().items() if reads(tree)}
    assert using == OPEN_FILES.keys()


def test_every_external_command_has_a_time_limit() -> None:
    found = {name: calls for name, tree in trees().items() if (calls := without_limit(tree))}
    expected = {name: [call] for name, call in WITHOUT_LIMIT.items()}
    expected["driver/execution/processes.py"] *= 2
    assert found == expected


def test_a_text_goes_to_a_shell_at_one_place_only() -> None:
    """`processes.shell_argv`; the escape test of the walls asks if a shell works inside."""
    found = {name for name, tree in trees().items() if shells(tree)}
    assert found == {"driver/walls/attempts.py"}


@pytest.mark.parametrize(
    ("source", "rule", "count"),
    [
        ("import json\njson.loads(x)", parsers_in, 1),
        ("from json import loads", parsers_in, 1),
        ("import json\njson.dumps(x)", parsers_in, 0),
        ("path.read_text()", reads, 1),
        ("read_text(path)", reads, 0),
        ("path.open()\npath.open('rb')\npath.open('ab+')\nopen(a)\nopen(a, 'r')", reads, 5),
        ("path.open('wb')\nopen(a, 'x')\nopener.open(request)\nos.open(a, flags)", reads, 0),
        ("capture(a, cwd=b, env=c)", without_limit, 1),
        ("capture(a, cwd=b, env=c, timeout_s=1)", without_limit, 0),
        ("Command(a, b, c, None)", without_limit, 1),
        ("Command(a, b, c, limit)", without_limit, 0),
        ("subprocess.run(a)", without_limit, 1),
        ("subprocess.run(a, timeout=3)", without_limit, 0),
        ("subprocess.run(a, shell=True)", shells, 1),
        ("os.system('ls')", shells, 1),
    ],
)
def test_the_rules_see_what_they_forbid(source: str, rule: Rule, count: int) -> None:
    assert len(rule(ast.parse(source))) == count
