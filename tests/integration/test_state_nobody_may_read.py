"""A state folder that this user may not look into: a sentence each, and never a traceback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.repos import make_repo, user_environ
from tools.program import exit_code

ROOT = Path(__file__).parents[2]
OTHER = 65_534
AS_ANOTHER = ("setpriv", f"--reuid={OTHER}", "--clear-groups")


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A repository whose state folder nobody may enter."""
    repo = make_repo(tmp_path / "repo", user_environ(tmp_path), {"a.txt": "x\n"}).path
    state = repo / "state"
    state.mkdir()
    (state / "tracker.json").write_text("[]", encoding="utf-8")
    state.chmod(0)
    yield repo
    state.chmod(0o700)


def python_for_others() -> str:
    """A Python that the other user may start as well."""
    for found in (sys.executable, shutil.which("python3", path=os.defpath)):
        tried = [
            *AS_ANOTHER,
            found or "none",
            "-c",
            "import sys; sys.exit(sys.version_info < (3, 11))",
        ]
        if subprocess.run(tried, check=False, capture_output=True).returncode == 0:
            return str(found)
    pytest.skip("another user has no Python here")


def as_another(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run one of our programs as a user whom permissions concern."""
    if os.name == "nt" or (os.geteuid() == 0 and shutil.which("setpriv") is None):
        pytest.skip("no other user to be here")
    command = [sys.executable]
    if os.geteuid() == 0:
        command = [*AS_ANOTHER, python_for_others()]
        for path in (folder, *folder.rglob("*")):
            os.chown(path, OTHER, -1)
        for path in folder.parents[:3]:
            path.chmod(path.stat().st_mode | 0o055)
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    return subprocess.run(
        [*command, *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.more
@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        ("driver/wave_scheduler.py --execute", 3, "halted"),
        ("tools/doctor.py", 4, "may not be used by this user"),
        ("tools/gc.py --dry-run", 4, "may not be used by this user"),
        ("tools/state.py status", 4, "may not be used by this user"),
    ],
)
def test_a_state_folder_that_may_not_be_entered_is_told(
    closed: Path, program: str, code: int, said: str
) -> None:
    name, *flags = program.split()
    done = as_another([str(ROOT / name), *flags], closed)
    assert "Traceback" not in done.stderr
    assert said in done.stderr
    assert done.returncode == code


def test_what_this_user_may_not_use_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> int:
        raise PermissionError(13, "Permission denied", "/state/runs")

    assert exit_code("gc", work) == 4
    assert capsys.readouterr().err == (
        "gc: /state/runs may not be used by this user: allow it, or be its owner\n"
    )
