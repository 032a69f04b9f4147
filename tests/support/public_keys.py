"""JSON documents that programs read and write, made by real waves, as sorted key paths.

Only programs, flags and files are named here, so that a module may move without a change here.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.support import programs
from tests.support.interpreter import ALONE, PYTHON
from tests.support.programs import ROOT, Project, Ran, item, run_here
from tests.support.reviewers import Reviewer

# Mappings whose keys are the user's or made up: slugs, digests, names of models and programs.
DYNAMIC = frozenset(
    {
        *("pipelines", "promptHashes", "gateDefinitions", "engines", "prompts", "origins"),
        *("by_role", "by_model", "by_phase", "by_verdict", "by_wave", "by_wave_phase"),
    }
)
# What is said under these keys are words of the contract, so they are told as well.
WORDS = frozenset(
    {
        *("verdict", "kind", "purpose", "canary", "baseline", "isolation", "adversarial_review"),
        *("abort_reason", "what", "status", "state", "phase", "permissions", "hermetic", "failure"),
    }
)
REASONS = "items_skipped[].reason"
KINDS = {bool: "truth", int: "number", float: "number", str: "text", list: "list", dict: "object"}

# Asks for changes of one item once, so that there are findings and a second round.
ANSWER = """
ask() if os.environ["TIDEGATE_ITEM"] == "staged" and round_ == 1 else say()
"""
PULL_REQUEST = "print('https://example.org/pull/7')\n"
UNIT_TEST = (
    "import unittest, value\n\n\nclass Value(unittest.TestCase):\n"
    "    def test_it(self):\n        self.assertEqual(value.value, 7)\n"
)
FILES = {
    "value.py": "value = 6\n",
    "test_value.py": UNIT_TEST,
    "old.txt": "good\n",
    "prompts/docs.md": "DO open('docs.md', 'w').write('words')\n",
    "prompts/pr.md": "DO print('Title: a title')\n",
}
PIPELINE = [
    {"name": "implement", "kind": "agent"},
    {"name": "gate", "kind": "gate", "commands": ["true"]},
    {"name": "review", "kind": "review", "repair": ["address", "gate"]},
    {
        **{"name": "docs", "kind": "agent", "prompt": "docs.md", "writes": ["docs.md"]},
        **{"effort": "quick", "timeout_s": 60, "model": "writer", "retries": 1},
    },
    {"name": "pr-text", "kind": "agent", "prompt": "pr.md", "permissions": "read-only"},
    {"name": "publish", "kind": "publish"},
]

# What a manifest or tracker item may say besides; each is refused where it says `WRONG`.
ITEM_KEYS = (
    *("slug", "prompt", "ownsFiles", "testCmd", "workDir", "repo", "title", "label", "phase"),
    *("effort", "model", "selfCheckCmd", "baseline", "fewerTests", "moreSkipped"),
    *("verificationTier", "repairCap", "spotCheckFrac", "requireAdversarialReview"),
    *("validateAllJson", "pipeline", "dependsOn", "nextAttemptAt"),
)
WRONG = {"x": 1}
UNREADABLE = "\x01"
SET_BY_THE_TEST = ("backend.name", "backend.command", "workspace.root", "review.mode", "state_dir")
VERDICTS = {
    "good": "verified",
    "bad": "failed",
    "astray": "refused",
    "missing": "undecided",
    "old": "already_green",
    "unit": "verified",
    "staged": "verified",
}


class Documents:
    """Key paths by the name of the document; documents of one name are taken together."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._said: dict[str, list[str]] = defaultdict(list)

    def add(self, name: str, document: Any) -> None:
        for path, kind in _paths(document, ""):
            self._kinds[name][path].add(kind)

    def say(self, name: str, line: str) -> None:
        """A line of its own making."""
        self._said[name].append(line)

    def lines(self) -> dict[str, list[str]]:
        """`path: kinds` and `path = word` by document, sorted. Null is told only of what is never
        anything else."""
        keys = {name: sorted(map(_line, found.items())) for name, found in self._kinds.items()}
        return keys | self._said


def _line(found: tuple[str, set[str]]) -> str:
    path, kinds = found
    if kinds == {""}:
        return path
    return f"{path}: {' '.join(sorted(kinds - {'null'})) or 'null'}"


def _paths(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if path:
        yield path, KINDS.get(type(value), "null")
    if isinstance(value, str) and (path.rpartition(".")[2] in WORDS or path == REASONS):
        yield f"{path} = {value}", ""
    if isinstance(value, dict):
        is_dynamic = path.rpartition(".")[2] in DYNAMIC
        for key, below in value.items():
            name = "*" if is_dynamic else key
            yield from _paths(below, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for below in value:
            yield from _paths(below, f"{path}[]")


def documents(folder: Path) -> dict[str, list[str]]:
    """Everything that waves of all outcomes leave and print in a new project in `folder`."""
    folder.mkdir(exist_ok=True)
    found = Documents()
    project = _project(folder)
    _cycles(project, found)
    _manifests(project, found)
    _looked_at(project, found)
    return found.lines()


def _project(folder: Path) -> Project:
    template = programs.make_template(folder / "template")
    for name, text in FILES.items():
        (template / name).parent.mkdir(exist_ok=True)
        (template / name).write_text(text, encoding="utf-8")
    programs.git(template, "add", "-A")
    programs.git(template, "commit", "-q", "-m", "files")
    project = Project(folder / "home", template)
    programs.git(folder, "init", "-q", "--bare", "remote.git")
    project.git("remote", "add", "origin", str(folder / "remote.git"))
    project.git("push", "-q", "-u", "origin", "main")
    reviewer = Reviewer(folder, ANSWER)
    asked = folder / "pull_request.py"
    asked.write_text(PULL_REQUEST, encoding="utf-8")
    command = [*ALONE, str(asked), "{title}"]
    project.configure()
    text = project.config.read_text(encoding="utf-8").replace('mode = "off"', 'mode = "policy"')
    more = (
        f'[ship]\npr = "draft"\npr_command = {json.dumps(command)}\n'
        "[limits]\nmax_wave_tokens = 1000000000\n[prices]\ncritic = { input = 1, output = 2 }\n"
        "[checkpoint]\ncommit = true\n"
    )
    project.config.write_text(text + reviewer.config() + more, encoding="utf-8")
    return project


def _items() -> list[dict[str, Any]]:
    astray = "DO open('elsewhere.txt', 'w').write('x')"
    unit = [*PYTHON, "-m", "unittest", "test_value"]
    return [
        item("good", title="A title", priority="P1", createdAt="2026-01-01T00:00:00Z"),
        item("bad", prompt="DO open('bad.txt', 'w').write('bad')", repairCap=1),
        item("astray", prompt=astray, repairCap=0),
        item("missing", testCmd=["no-such-program-at-all"]),
        item("old", prompt="nothing", repairCap=0),
        item(
            "unit",
            ownsFiles=["value.py"],
            prompt="DO open('value.py', 'w').write('value = 7')",
            testCmd=unit,
        ),
        item(
            "staged",
            ownsFiles=["staged.txt", "docs.md"],
            prompt="DO open('staged.txt', 'a').write('good\\n')",  # each round changes it
            pipeline=PIPELINE,
            repairCap=1,
        ),
        item("rival", ownsFiles=["good.txt"]),
        item("nothing", ownsFiles=[]),
        item("waiting", dependsOn=["GOOD"]),
    ]


def _cycles(project: Project, found: Documents) -> None:
    project.track(*_items())
    found.add("dry run report", _reported(project.schedule("--dry-run", "--max-items", "8"), 0))
    first = _reported(project.schedule("--max-items", "8"), 1)
    _add_cycle(found, first)
    verdicts = {record["slug"]: record["verdict"] for record in first["wave"]["built"]}
    assert verdicts == VERDICTS, [(r["slug"], r["error"]) for r in first["wave"]["built"]]
    _add_files(project, found, first["wave_id"])
    project.git("merge", "-q", "--no-edit", first["branch"])
    project.git("push", "-q", "origin", "main")
    for name in ("GOOD", "UNIT", "STAGED"):
        assert project.item_now(name)["status"] == "in_progress"
    _add_cycle(found, _reported(project.schedule("--only", "nobody"), None))
    _add_tracker(project, found)
    halt = ROOT / "tools" / "halt.py"
    state = ("--state-dir", project.state)
    run_here(halt, "set", "a reason", *state, cwd=project.home)
    found.add(
        "halt --status",
        _reported(run_here(halt, "--status", "--json", *state, cwd=project.home), 1),
    )
    _add_cycle(found, _reported(project.schedule(), 3))
    run_here(halt, "--clear", *state, cwd=project.home)


def _reported(ran: Ran, code: int | None) -> dict[str, Any]:
    assert code is None or ran.code == code, (ran.code, ran.err)
    return ran.report


def _add_cycle(found: Documents, report: Mapping[str, Any]) -> None:
    """The wave's own report and the records in it are told once, apart."""
    shipped = [{**one, "buildRecord": {}} for one in report["items_shipped"]]
    cycle = {key: value for key, value in report.items() if key != "wave"}
    found.add("scheduler report", {**cycle, "items_shipped": shipped, "wave": {}})
    if report.get("wave"):
        _add_wave(found, report["wave"])


def _add_wave(found: Documents, wave: Mapping[str, Any]) -> None:
    found.add("wave report", {**wave, "built": []})
    for record in wave["built"]:
        found.add("record of an item", record)


def _add_files(project: Project, found: Documents, wave_id: str) -> None:
    run = project.state / "runs" / wave_id
    found.add("runs/<wave>/snapshot.json", _read(run / "snapshot.json"))
    for entry in (project.state / "journal").glob("*.json"):
        found.add("journal/<item>.json", _read(entry))
    for request in (project.state / "pull_requests").glob("*.json"):
        found.add("pull_requests/<commit>.json", _read(request))


def _add_tracker(project: Project, found: Documents) -> None:
    for one in _read(project.tracker)["items"]:
        found.add("item of tracker.json", {**one, "pipeline": []})


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _manifests(project: Project, found: Documents) -> None:
    """Waves from a manifest: one that ships, one that cannot begin, one that nobody can read."""
    other = item("other")
    fine = project.manifest(other, wave_id="manifest-1")
    found.add("dry run of a manifest", _reported(project.loop("--manifest", fine, "--dry-run"), 0))
    plain = project.home / "plain.toml"
    kept = project.config
    plain.write_text(_plain(kept.read_text(encoding="utf-8")), encoding="utf-8")
    project.config = plain
    recorded = project.home / "recording.jsonl"
    flags = ("--manifest", fine, "--resume", "--record", recorded)
    _add_wave(found, _reported(project.loop(*flags), 0))
    for line in recorded.read_text(encoding="utf-8").splitlines():
        found.add("line of a recording", json.loads(line))
    project.config = kept
    _add_defaults(project, found)
    clash = project.manifest(other, {**other, "slug": "again", "id": "AGAIN"})
    found.add("wave that cannot begin", _reported(project.loop("--manifest", clash), 2))
    gone = project.loop("--manifest", project.home / "none.json")
    found.add("program that cannot begin", _reported(gone, 2))


def _plain(config: str) -> str:
    """The configuration up to what is asked of reviewers: all else is the default."""
    return config.partition("[review.backend]")[0].replace('"policy"', '"off"')


def _add_defaults(project: Project, found: Documents) -> None:
    snapshot = _read(project.state / "runs" / "manifest-1" / "snapshot.json")
    for name, value in sorted(_settings(snapshot["resolvedConfig"], "")):
        shown = "set by this test" if name in SET_BY_THE_TEST else json.dumps(value)
        found.say("settings and their defaults", f"{name} = {shown}")


def _settings(table: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _settings(value, f"{before}{key}.")
        else:
            yield before + key, value


def refused_settings(folder: Path, names: Sequence[str], variables: Sequence[str]) -> str:
    """What a program says where all these settings and variables have a value that none can have.

    All of it is told at once, by name.
    """
    tables: dict[str, list[str]] = defaultdict(list)
    for name in names:
        section, _, key = name.rpartition(".")
        tables[section].append(f"{key} = {{ x = 1 }}")
    text = [line for section in sorted(tables) for line in (f"[{section}]", *tables[section])]
    config = folder / "wrong.toml"
    config.write_text("\n".join(text).replace("[]\n", "") + "\n", encoding="utf-8")
    environment = programs.environment(folder, **dict.fromkeys(variables, UNREADABLE))
    flags = ("--manifest", "none.json", "--config", config, "--dry-run")
    return str(_reported(run_here(programs.LOOP, *flags, cwd=folder, env=environment), 2)["error"])


def refused_items(project: Project) -> dict[str, str]:
    """By key of an item: why an item is left out in which it says `WRONG`, or "taken up"."""
    named = enumerate(ITEM_KEYS)
    items = [item(f"i{n}", id=key, **{"ownsFiles": [f"{n}"], key: WRONG}) for n, key in named]
    nameless = item("nameless")
    del nameless["id"]
    items += [item("unknown", nobodyKnowsThis=WRONG), nameless]
    project.track(*items)
    report = _reported(project.schedule("--dry-run", "--max-items", "99"), 0)
    taken = dict.fromkeys(report["items_selected"], "taken up")
    return taken | {str(one["id"]): one["reason"] for one in report["items_skipped"]}


VIEWS: tuple[tuple[str, ...], ...] = (
    ("state.py", "items", "--json"),
    ("state.py", "waves", "--json"),
    ("state.py", "wave", "manifest-1", "--json"),
    ("state.py", "traces", "--json"),
    ("state.py", "status", "--json"),
    ("state.py", "sync", "--json"),
    ("recover.py", "list", "--json"),
    ("recover.py", "show", "KEPT", "--json"),
    ("reproduce.py", "manifest-1", "other", "--repo", "repo", "--config", "plain.toml", "--json"),
    ("doctor.py", "--json"),
    ("wave_preflight.py", "--json"),
    ("wave_preflight.py", "--tracker", "tracker.json", "--json"),
    ("wave_templates.py", "validate", "--json"),
    ("reconcile.py", "--state-md", "state/STATE.md", "--json"),
    ("orchestrator_status.py", "set", "--activity", "a", "--phase", "p"),
    ("gc.py", "--older-than", "0", "--dry-run", "--json"),
    ("verify_state.py", "--json"),
    ("cost_projection.py", "--projection", "--json"),
    ("fleet_ledger.py", "summary", "--json"),
    ("cost_ceiling.py", "--check"),
)


def _looked_at(project: Project, found: Documents) -> None:
    """What the tools print of all this, and the events as they are stored."""
    kept = ""  # the name of a patch, once the list has told it
    environment = programs.environment(project.home, TIDEGATE_STATE_DIR=str(project.state))
    for name, *flags in VIEWS:
        words = [kept if flag == "KEPT" else flag for flag in flags]
        ran = run_here(ROOT / "tools" / name, *words, cwd=project.home, env=environment)
        assert ran.out, ran.err
        shown = json.loads(ran.out)
        if name == "recover.py" and flags[0] == "list":
            kept = shown[0]["name"]
        if name == "state.py" and flags[0] == "items":
            shown["items"] = []  # the tracker's items, told above
        found.add(" ".join((name, *flags)), shown)
    with closing(sqlite3.connect(project.state / "tracker_events.db")) as database:
        rows = database.execute("SELECT stream, type, payload FROM events").fetchall()
    for stream, kind, payload in rows:
        fields = json.loads(payload)
        if stream == "tracker":
            fields = {"id": fields["id"]}  # the item's own keys, told above
        if kind != "phase_entered":  # only of phases that last, which depends on the machine
            found.add(f"event {stream.partition(':')[0]} {kind}", fields)
