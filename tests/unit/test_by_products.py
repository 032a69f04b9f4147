"""Files that programs leave beside the work, and files with similar names that are the work."""

from __future__ import annotations

import pytest

from driver.domain.ownership import OwnedPath
from driver.policy.by_products import ByProducts, folders_of

TRACKED = frozenset(
    {"src/a.py", ".claude/settings.json", "pkg/coverage/__init__.py", "vendor/.DS_Store"}
)
ON_DISK = frozenset(
    {
        *("venv/pyvenv.cfg", "env/pyvenv.cfg", "coverage/lcov.info", "target/CACHEDIR.TAG"),
        *("node_modules/.package-lock.json", "pkg/coverage/lcov.info", "x.egg-info/SOURCES.txt"),
        *("htmlcov/.gitignore", "web/node_modules/.yarn-integrity"),
    }
)


def by_products(*owned: OwnedPath, more: tuple[str, ...] = ()) -> ByProducts:
    return ByProducts(TRACKED, folders_of(TRACKED), ON_DISK.__contains__, owned, more)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".aider.chat.history.md", ".aider.chat.history.md (state of an agent's program)"),
        (".aider.tags.cache.v4/x", ".aider.tags.cache.v4/ (state of an agent's program)"),
        (".claude/settings.local.json", ".claude/settings.local.json (state of"),
        ("sub/.claude/worktrees/w/", "sub/.claude/worktrees/ (state of"),
        (".codex/sessions/2026/x.jsonl", ".codex/sessions/ (state of"),
        (".opencode/node_modules/x/y.js", ".opencode/node_modules/ (state of"),
        ("src/.DS_Store", "src/.DS_Store (file of an operating system)"),
        ("thumbs.DB", "thumbs.DB (file of an operating system)"),
        (".coverage", ".coverage (left by a tool)"),
        (".coverage.host.1.2", ".coverage.host.1.2 (left by a tool)"),
        ("htmlcov/index.html", "htmlcov/ (left by a tool)"),
        ("coverage/lcov-report/a.html", "coverage/ (left by a tool)"),
        (".pytest_cache/v/x", ".pytest_cache/ (left by a tool)"),
        ("target/debug/x", "target/ (left by a tool)"),
        ("x.egg-info/PKG-INFO", "x.egg-info/ (left by a tool)"),
        (".venv/x", ""),
        ("venv/bin/python", "venv/ (an installed environment)"),
        ("env/lib/x/y.py", "env/ (an installed environment)"),
        ("node_modules/a/b.js", "node_modules/ (an installed environment)"),
        ("web/node_modules/a/", "web/node_modules/ (an installed environment)"),
        ("lib/node_modules/evil.js", ""),
        ("src/.a.py.swp", "src/.a.py.swp (a temporary file of an editor or tool)"),
        (".idea/workspace.xml", ".idea/ (a temporary file of"),
        # The work itself, or an offence.
        ("vendor/.DS_Store", ""),
        ("CLAUDE.md", ""),
        (".claude/settings.json", ""),
        (".claude/agents/x.md", ""),
        (".aider.conf.yml", ""),
        (".codex/config.toml", ""),
        (".vscode/settings.json", ""),
        ("src/new.py", ""),
        ("pkg/coverage/new.py", ""),
        ("src/coverage/x.py", ""),
        ("node_modulesx", ""),
    ],
)
def test_what_programs_leave_is_told_from_work(path: str, found: str) -> None:
    told = by_products().found(path)
    assert told.startswith(found)
    assert bool(told) == bool(found)


@pytest.mark.parametrize(
    ("owned", "path", "is_work"),
    [
        (OwnedPath(".coverage"), ".coverage", True),
        (OwnedPath("coverage", is_dir=True), "coverage/x.html", True),
        (OwnedPath("coverage/x.html"), "coverage/x.html", True),
        (OwnedPath("coverage/x.html"), "coverage/y.html", False),
        (OwnedPath(".idea", is_dir=True), ".idea/x.xml", True),
        (OwnedPath("src", is_dir=True), "src/.DS_Store", False),
        (OwnedPath("src", is_dir=True), "src/fix.orig", True),
        (OwnedPath("src", is_dir=True), "fix.orig", False),
        (OwnedPath("env/lib", is_dir=True), "env/lib/x.py", True),
    ],
)
def test_what_the_item_lists_by_name_is_its_work(
    owned: OwnedPath, path: str, is_work: bool
) -> None:
    assert (by_products(owned).found(path) == "") is is_work


def test_the_users_own_patterns_count_too() -> None:
    told = by_products(more=("*.log", "tmp/scratch/"))
    assert told.found("a/b.log") == "a/b.log (named in [workspace] leftovers)"
    assert told.found("tmp/scratch/x") == "tmp/scratch/ (named in [workspace] leftovers)"
    assert told.found("scratch/x") == ""
