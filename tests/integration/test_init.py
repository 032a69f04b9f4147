"""A project is begun with a few files, and nothing that was there is touched."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from contextlib import nullcontext
from pathlib import Path

import pytest

from state_store.documents.errors import InputError
from tests.support import warm
from tests.support.beside import beside, beside_on
from tests.support.interpreter import PYTHON
from tests.support.repos import Checkout, make_repo, user_environ
from tools.first_settings import PROGRAMS, config_text
from tools.found_tests import found_tests
from tools.init import ask_for, build_parser
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
def test_the_first_item_of_ones_own_is_not_numbered_after_the_example(repo: Checkout) -> None:
    init(repo)
    given = ("Say hello", "--owns", "hello.txt", "--test", "grep -qx hello hello.txt")
    for number in (1, 2):
        code, out, _ = program(repo.path, repo.environ, "tools/add.py", *given, "--json")
        made = json.loads(out)["item"]
        slug = "say-hello" if number == 1 else "say-hello-2"
        assert (code, made["id"], made["slug"]) == (0, f"T-{number}", slug)


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
def test_a_second_call_says_that_it_made_nothing(repo: Checkout) -> None:
    first, second = init(repo)[1], init(repo)[1]
    assert "made: " in first
    assert "made: " not in second


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


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kind", "files"),
    [
        ("github", [".github/workflows/tidegate.yml"]),
        ("gitlab", [".gitlab/tidegate.yml", ".gitlab-ci.yml"]),
        ("cron", ["state/tidegate.crontab"]),
        ("systemd", ["state/tidegate.service", "state/tidegate.timer"]),
        ("github-matrix", [".github/workflows/tidegate-matrix.yml"]),
        ("kubernetes", ["state/tidegate-kubernetes.yml"]),
        ("compose", ["state/compose.yml"]),
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
def test_the_files_of_this_machine_have_its_paths(repo: Checkout) -> None:
    assert init(repo, "--workflow", "cron", "--workflow", "compose")[0] == 0
    table = (repo.path / "state" / "tidegate.crontab").read_text(encoding="utf-8")
    top = repo.path.resolve()
    assert f"\nPROJECT={top}\nSTATE={top / 'state'}\n" in table
    assert (Path(table.partition("\nTIDEGATE=")[2].partition("\n")[0]) / "driver").is_dir()
    compose = (repo.path / "state" / "compose.yml").read_text(encoding="utf-8")
    assert f'"{top}:/project:ro"' in compose
    assert "{" + "STATE}" not in table + compose


@on_repo
def test_quiet_prints_results_only(repo: Checkout) -> None:
    assert init(repo, "-q")[:2] == (0, "")
    words = ("Round prices", "--owns", "a.py", "--test", "true")
    assert program(repo.path, repo.environ, "tools/add.py", *words, "-q")[:2] == (0, "T-1\n")


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
    assert out.endswith(f"tidegate.py plan --state-dir {tmp_path / 'st'}\n")


@on_repo
def test_the_next_command_works_in_another_folder(repo: Checkout) -> None:
    place = repo.path.parent / "elsewhere"
    place.mkdir()
    asked = ("tools/init.py", "--repo", str(repo.path))
    code, out, _ = program(place, repo.environ, *asked)
    state = repo.path / "state"
    found = f"tidegate.py plan --repo {repo.path} --state-dir {state}"
    assert (code, out.splitlines()[-1].endswith(found)) == (0, True)
    assert (state / "tracker.json").is_file()
    assert not (place / "state").exists()


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


AGENT = f"{sys.executable} -c pass"


@on_repo
def test_the_commands_at_the_end_run(repo: Checkout) -> None:
    (repo.path.parent / "elsewhere").mkdir()
    asked = ("tools/init.py", "--repo", str(repo.path), "--agent", AGENT, "--json")
    code, out, _ = program(repo.path.parent / "elsewhere", repo.environ, *asked)
    document = json.loads(out)
    assert (code, document["schema"]) == (0, "tidegate/init/1")
    for command in document["next"]:
        words = shlex.split(command)[1:]
        name = str(Path(words[0]).relative_to(ROOT))
        done = program(repo.path.parent / "elsewhere", repo.environ, name, *words[1:])
        assert done[0] == 0, (command, done)


@on_repo
def test_flags_answer_every_question(repo: Checkout) -> None:
    flags = ("--agent", "my-agent --headless", "--test", "make test", "--workflow", "cron")
    assert init(repo, *flags, "--skills")[0] == 0
    settings = load(project=repo.path, environ={"HOME": str(repo.path)})
    assert settings.backend.name == "command"
    assert settings.backend.command == ("my-agent", "--headless")
    assert [*map(str, settings.verify.integration)] == ["make test"]
    assert (repo.path / "state" / "tidegate.crontab").is_file()


@on_repo
def test_skills_call_the_command_line_and_nothing_else(repo: Checkout) -> None:
    assert init(repo, "--skills")[0] == 0
    for name, words in (("power", {"doctor", "status"}), ("buildsystem", {"plan", "run", "logs"})):
        text = (repo.path / ".claude" / "commands" / f"{name}.md").read_text()
        head = text.split("---")[1]
        assert "description: " in head
        called = set(re.findall(r"`\S+ \S+tidegate\.py ([a-z]+)", text))
        assert words <= called
        allowed = re.search(r"allowed-tools: (.*)", head)
        assert allowed is not None
        assert called <= set(re.findall(r"tidegate\.py ([a-z]+):\*", allowed[1]))
        assert "{tidegate}" not in text
    kept = init(repo, "--skills")[1]
    assert kept.count("kept, it was there: ") >= 4


@on_repo
def test_settings_that_are_kept_are_not_told_of_tests(repo: Checkout) -> None:
    repo.write({"tests/test_a.py": "import unittest\n"})
    assert "tests found: " in init(repo)[1]
    assert "tests found: " not in init(repo, "--skills")[1]


def test_a_person_is_asked_three_questions(tmp_path: Path) -> None:
    answers = iter(["", "pytest -q tests", "gitlab"])
    questions: list[str] = []

    def ask(question: str) -> str:
        questions.append(question)
        return next(answers)

    args = build_parser().parse_args([])
    ask_for(args, ["python3 -m pytest -q"], ask)
    assert len(questions) == 3
    assert questions[1].endswith("[python3 -m pytest -q]: ")
    assert (args.test, args.workflow) == ("pytest -q tests", ["gitlab"])
    assert args.agent in PROGRAMS
    given = build_parser().parse_args(["--agent", "x", "--test", "y", "--workflow", "cron"])
    ask_for(given, [], ask)
    assert len(questions) == 3


def test_an_empty_answer_or_the_end_of_the_input_takes_what_is_proposed() -> None:
    def ended(_: str) -> str:
        raise EOFError

    args = build_parser().parse_args([])
    ask_for(args, ["go test ./..."], ended)
    assert (args.test, args.workflow) == ("go test ./...", [])
    with pytest.raises(InputError, match="did you mean github"):
        ask_for(build_parser().parse_args(["--agent", "a", "--test", "b"]), [], lambda _: "githb")


@on_repo
def test_an_agent_that_is_nearly_known_is_guessed(repo: Checkout) -> None:
    code, _, err = init(repo, "--agent", "claud")
    assert (code, "did you mean claude?" in err) == (2, True)
    assert not (repo.path / "tidegate.toml").exists()


@pytest.mark.parametrize("name", ["opencode", "gemini", "aider"])
def test_the_settings_of_an_agent_are_those_of_the_pages(name: str) -> None:
    page = (ROOT / "docs" / "drivers.md").read_text(encoding="utf-8")
    shown = page.split(f"#### {name}\n")[1].split("```toml\n")[1].split("```")[0]
    ours = tomllib.loads(config_text(name))
    assert {key: ours[key] for key in ("backend", "review")} == tomllib.loads(shown)


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"pytest.ini": "[pytest]\n"}, "python3 -m pytest -q"),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, "python3 -m pytest -q"),
        ({"tests/test_a.py": "import pytest\n"}, "python3 -m pytest -q"),
        ({"requirements-dev.txt": "pytest>=8\n"}, "python3 -m pytest -q"),
        ({"tests/test_a.py": "import unittest\n"}, "python3 -m unittest -q discover -s tests"),
        ({"tests/__init__.py": "", "tests/test_a.py": "x"}, "python3 -m unittest -q"),
        ({"test_a.py": "import unittest\n"}, "python3 -m unittest -q discover"),
        ({"tox.ini": "[tox]\n"}, "tox -q"),
        ({"noxfile.py": "import nox\n"}, "nox"),
        ({"package.json": '{"scripts": {"test": "jest"}}'}, "npm test"),
        ({"package.json": '{"scripts": {"test": "x"}}', "yarn.lock": ""}, "yarn test"),
        ({"package.json": '{"scripts": {"test": "x"}}', "pnpm-lock.yaml": ""}, "pnpm test"),
        ({"package.json": '{"devDependencies": {"vitest": "1"}}'}, "npx vitest run"),
        ({"package.json": '{"devDependencies": {"mocha": "1"}}'}, "npx mocha"),
        ({"package.json": "{}", "test/a.test.js": ""}, "node --test"),
        ({"go.mod": "module x\n"}, "go test ./..."),
        ({"Cargo.toml": "[package]\n"}, "cargo test"),
        ({"Makefile": "build:\n\ttrue\ntest: build\n\ttrue\n"}, "make test"),
        ({"pom.xml": "<project/>"}, "mvn -q test"),
        ({"build.gradle": "", "gradlew": ""}, "./gradlew test"),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\""}}'}, None),
        ({"package.json": "[broken"}, None),
        ({"Makefile": "test := 1\n"}, None),
        ({"README.md": "pytest\n"}, None),
    ],
)
def test_the_test_runner_is_found_by_looking(
    tmp_path: Path, files: dict[str, str], command: str | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert found_tests(tmp_path)[:1] == ([command] if command else [])
