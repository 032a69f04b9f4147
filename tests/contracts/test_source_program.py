"""A program that knows only the source's names runs unchanged, in a process of its own."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.repos import make_repo, user_environ

pytestmark = pytest.mark.in_walls

ROOT = Path(__file__).resolve().parents[2]
# A text, because its imports are those of a caller with `driver/` and `tools/` on sys.path.
PROGRAM = Path(__file__).with_name("source_program.txt")
OBJECTS = {"api", "write", "read", "store", "driver", "codex", "local", "ReadAPI"}


def called(text: str) -> list[str]:
    """The names of the source that the program calls, once for each place."""
    tree = ast.parse(text)
    bare = {
        one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names
    }
    theirs = OBJECTS | {
        one.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("state_store")
        for one in node.names
    }
    theirs |= bare - sys.stdlib_module_names
    functions = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = [ast.unparse(one) for one in functions if isinstance(one, ast.Attribute | ast.Name)]
    return [name for name in names if name.split(".")[0].split("(")[0] in theirs]


def test_a_program_of_the_source_runs_unchanged(tmp_path: Path) -> None:
    environ = user_environ(tmp_path / "home")
    make_repo(tmp_path / "repo", environ, {"a.txt": "bad\n", "b.txt": "bad\n"})
    (tmp_path / "plain").mkdir()
    (tmp_path / "program.py").write_text(PROGRAM.read_text(encoding="ascii"), encoding="ascii")
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py", ROOT, tmp_path],
        cwd=tmp_path,
        env={**environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr[-3000:]) == (0, done.stderr[-3000:])
    assert done.stderr.endswith("all asserted\n")


def test_the_program_makes_more_than_sixty_calls_of_the_source() -> None:
    found = called(PROGRAM.read_text(encoding="ascii"))
    assert len(found) >= 60
    assert len(set(found)) >= 60
