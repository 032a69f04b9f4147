"""A project is begun with a few files, and nothing that was there is touched."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.support import warm
from tests.support.beside import beside, beside_on
from tests.support.interpreter import PYTHON
from tests.support.repos import Checkout, make_repo, user_environ
from tools.settings.load import load

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def repo(tmp_path: Path) -> Checkout:
    return make_repo(tmp_path / "repo", user_environ(tmp_path / "home"), {"a.txt": "a\n"})


FILES = {"a.txt": "a\n"}
on_repo = beside_on(
    lambda folder: nullcontext(make_repo(folder / "repo", user_environ(folder / "home"), FILES))
)


def program(folder: Path, environ: object, name: str, *args: str) -> tuple[int, str, str]:
    done = warm.run(
        [*PYTHON, str(ROOT / name), *args],
        cwd=folder,
        env=dict(environ),  # type: ignore[call-overload]
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def init(repo: Checkout, *args: str) -> tuple[int, str, str]:
    return program(repo.path, repo.environ, "tools/init.py", *args)


@on_repo
def test_a_project_gets_settings_a_backlog_and_nothing_to_commit_by_accident(
    repo: Checkout,
) -> None:
    code, out, err = init(repo)
    assert (code, err) == (0, "")
    assert f"made: {repo.path / 'tidegate.toml'}" in out
    settings = load(project=repo.path, environ=repo.environ, cwd=repo.path)
    assert settings.backend.name == "claude"
    tracker = repo.path / "state" / "tracker.json"
    document = json.loads(tracker.read_text(encoding="utf-8"))
    (item,) = document["items"]
    assert item["status"] == "proposed"
    schema = tracker.parent / document["$schema"]
    assert json.loads(schema.read_text(encoding="utf-8"))["$id"] == "urn:tidegate:schema:tracker:1"
    assert repo.git("status", "--porcelain") == "?? tidegate.toml"


@on_repo
def test_the_backlog_it_makes_can_be_run_once_its_item_is_to_do(repo: Checkout) -> None:
    init(repo)
    dry = ("driver/wave_scheduler.py", "--dry-run")
    code, out, _ = program(repo.path, repo.environ, *dry)
    assert code == 0
    assert json.loads(out)["items_selected"] == []
    tracker = repo.path / "state" / "tracker.json"
    tracker.write_text(tracker.read_text().replace('"proposed"', '"todo"'))
    code, out, _ = program(repo.path, repo.environ, *dry)
    assert json.loads(out)["items_selected"] == ["EXAMPLE-1"]


@on_repo
def test_what_is_there_is_kept_to_the_byte(repo: Checkout) -> None:
    theirs = {
        "tidegate.toml": "[backend]\nname = 'command'\n",
        "state/tracker.json": "[]",
        ".github/workflows/tidegate.yml": "theirs",
        ".gitlab-ci.yml": "stages: [a]",
        ".gitignore": "*.log",
    }
    repo.write(theirs)
    flags = ("--workflow", "github", "--workflow", "gitlab", "--gitignore")
    code, out, _ = init(repo, *flags)
    assert code == 0
    assert out.count("kept, it was there") == 4
    for name, text in theirs.items():
        kept = (repo.path / name).read_text()
        assert kept == (text if name != ".gitignore" else "*.log\n/state/\n")
    assert "add to it: include" in out
    before = repo.git("status", "--porcelain", "--ignored")
    assert init(repo, *flags)[0] == 0
    assert repo.git("status", "--porcelain", "--ignored") == before
    assert (repo.path / ".gitignore").read_text() == "*.log\n/state/\n"


@pytest.mark.parametrize(
    ("kind", "files"),
    [
        ("github", [".github/workflows/tidegate.yml"]),
        ("gitlab", [".gitlab/tidegate.yml", ".gitlab-ci.yml"]),
        ("cron", ["state/tidegate.crontab"]),
        ("systemd", ["state/tidegate.service", "state/tidegate.timer"]),
    ],
)
@on_repo
def test_a_workflow_is_made_on_request(repo: Checkout, kind: str, files: list[str]) -> None:
    init(repo)
    assert not any((repo.path / name).exists() for name in files)
    code, out, _ = init(repo, "--workflow", kind)
    assert code == 0
    for name in files:
        assert f"made: {repo.path / name}" in out
        assert (repo.path / name).read_text(encoding="utf-8")
    assert "add to it" not in out


@on_repo
def test_a_broken_link_is_something_that_is_there(repo: Checkout) -> None:
    outside = repo.path.parent / "outside"
    (repo.path / "tidegate.toml").symlink_to(outside)
    code, out, _ = init(repo)
    assert (code, outside.exists()) == (0, False)
    assert "kept, it was there" in out


@on_repo
def test_settings_in_pyproject_are_settings(repo: Checkout) -> None:
    repo.write({"pyproject.toml": '[tool.tidegate.backend]\nname = "claude"\n'})
    assert "its [tool.tidegate] has the settings" in init(repo)[1]
    assert not (repo.path / "tidegate.toml").exists()


@beside
def test_outside_a_repository_nothing_is_made(folder: Path) -> None:
    environ = {**user_environ(folder / "home"), "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    place = folder / "place"
    place.mkdir()
    code, out, err = program(place, environ, "tools/init.py")
    assert (code, out) == (2, "")
    assert "--repo" in err
    assert list(place.iterdir()) == []


def test_a_state_folder_elsewhere_needs_no_ignoring(repo: Checkout, tmp_path: Path) -> None:
    code, out, _ = init(repo, "--state-dir", str(tmp_path / "st"), "--gitignore")
    assert code == 0
    assert (tmp_path / "st" / "tracker.json").is_file()
    assert not (repo.path / ".gitignore").exists()
    assert "nothing to ignore" in out
    assert out.endswith(f"wave_scheduler.py --state-dir {tmp_path / 'st'}\n")


@on_repo
def test_the_next_command_works_in_another_folder(repo: Checkout) -> None:
    place = repo.path.parent / "elsewhere"
    place.mkdir()
    asked = ("tools/init.py", "--repo", str(repo.path))
    code, out, _ = program(place, repo.environ, *asked)
    assert (code, out.splitlines()[-1].endswith(f"wave_scheduler.py --repo {repo.path}")) == (
        0,
        True,
    )


@on_repo
def test_one_word_reaches_every_program(repo: Checkout) -> None:
    def tidegate(*args: str) -> tuple[int, str, str]:
        return program(repo.path, repo.environ, "driver/tidegate.py", *args)

    code, out, _ = tidegate()
    assert code == 0
    words = [line.split()[0] for line in out.splitlines() if line[:2] == "  " and line[2] != " "]
    assert {"init", "run", "doctor", "halt", "status"} <= set(words)
    for word in words:
        code, out, _ = tidegate(word, "--help")
        assert (code, out[:6]) == (0, "usage:")
    assert tidegate("init")[0] == 0
    assert json.loads(tidegate("run")[1])["success"] is True
    assert json.loads(tidegate("--dry-run")[1])["phase"] == "intake"
    assert tidegate("halt", "--status")[0] == 0
    code, _, err = tidegate("nosuch")
    assert code == 2
    assert "there is no 'nosuch'" in err
