"""`tools/doctor.py` as a user runs it, with real repositories and programs of its own on PATH."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from driver.execution.sandbox_probe import program_outside
from state_store.database.store import EventStore
from tests.support.programs import ROOT, Project, call, git, run
from tools.doctor import main

DOCTOR = ROOT / "tools" / "doctor.py"
GIT = shutil.which("git")
KEY = "sk-canary-0123456789"

pytestmark = [
    pytest.mark.in_walls,
    pytest.mark.usefixtures("at_home"),
    pytest.mark.skipif(os.name != "posix", reason="its programs are shell scripts"),
]

CLAUDE = """
case "$*" in
    --version) echo "9.8.7 (Claude Code)";;
    "auth status --help") echo "Usage: claude auth status [options]";;
    "auth status")
        if [ -n "$ANTHROPIC_API_KEY" ]; then echo '{"loggedIn": true, "authMethod": "api_key"}'
        else echo '{"loggedIn": false}'; exit 1; fi;;
    *) echo "$*" >> "$HOME/spent"; exit 9;;
esac
"""


class Place:
    """A project, a folder of programs that is the whole PATH, and the doctor's answers."""

    def __init__(self, project: Project, bin_dir: Path) -> None:
        self.project = project
        self.bin = bin_dir
        self.config = project.config
        assert GIT is not None
        bin_dir.mkdir()
        (bin_dir / "git").symlink_to(GIT)
        self.configure('[backend]\nname = "claude"\n')
        self.program("claude", CLAUDE)

    def configure(self, text: str) -> None:
        work = json.dumps(str(self.project.home / "work"))
        self.config.write_text(f"{text}[workspace]\nroot = {work}\n", encoding="utf-8")

    def program(self, name: str, script: str) -> Path:
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    def examine(self, *flags: str | Path, repo: Path | None = None) -> dict[str, dict[str, Any]]:
        """All checks by their names; the exit code fits them."""
        where = ("--repo", repo or self.project.top, "--state-dir", self.project.state)
        done = call(main, *where, "--config", self.config, "--json", *flags)
        document = json.loads(done.out)
        checks = {check["name"]: check for check in document["checks"]}
        assert len(checks) == len(document["checks"])
        assert document["ok"] is all(check["ok"] for check in checks.values())
        assert (done.code, done.err) == (0 if document["ok"] else 4, "")
        assert all(check["remedy"] for check in checks.values() if check["level"] != "ok")
        assert all(check["ok"] is (check["level"] != "fail") for check in checks.values())
        return checks

    def level(self, name: str, *flags: str | Path, repo: Path | None = None) -> tuple[str, str]:
        """(level, detail and remedy) of one check."""
        check = self.examine(*flags, repo=repo)[name]
        return check["level"], f"{check['detail']} -> {check['remedy']}"


@pytest.fixture
def place(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for name in ("IS_SANDBOX", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    return Place(project, tmp_path / "bin")


def test_where_all_is_well_nothing_fails_and_nothing_is_changed(place: Place) -> None:
    before = sorted(place.project.home.rglob("*"))
    checks = place.examine()
    assert [name for name, check in checks.items() if not check["ok"]] == []
    assert checks["backend.program"]["detail"].endswith("/claude: 9.8.7 (Claude Code)")
    assert checks["backend.login"]["detail"] == "by api_key"
    assert list(checks) == [
        *("git", "repository", "workspaces", "state", "database", "halt", "tracker"),
        *("disk.state", "disk.workspaces"),
        *(
            "history",
            "hooks",
            "remote",
            "shipping",
            "signing",
            "identity",
            "clock",
            "cores",
            "sandbox",
        ),
        *("sees.agent", "sees.test", "sees.setup", "sees.hook"),
        *("backend.program", "backend.login"),
    ]
    assert sorted(place.project.home.rglob("*")) == before


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "level", "says"),
    [
        (None, "warn", "init.py creates it"),
        ("[", "fail", "tracker.json"),
        ("[]", "ok", "0 of 0 items to do"),
        ('[{"id": "A", "slug": "a", "status": "todo"}]', "warn", "1 of 1 items to do; "),
        ('[{"id": "A", "slug": "a", "status": "claimed"}]', "warn", "1 of 1 items to do; "),
    ],
)
def test_the_backlog_is_looked_at(place: Place, text: str | None, level: str, says: str) -> None:
    if text is not None:
        place.project.state.mkdir()
        (place.project.state / "tracker.json").write_text(text, encoding="utf-8")
    told = place.level("tracker")
    assert (told[0], says in told[1]) == (level, True), told


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("words", "level", "says"),
    [
        ("-m unittest discover -s tests", "warn", "No module named 'u'"),
        ("-m unittest discover -s tests -t .", "warn", "No module named 'u'"),
        ("-m unittest tests.test_none", "warn", "tests/test_none.py"),
        ("-m unittest discover", "ok", "1 test commands"),
    ],
)
def test_where_tests_import_from_is_asked(place: Place, words: str, level: str, says: str) -> None:
    top = place.project.top
    for name in ("src", "tests"):
        (top / name).mkdir()
    (top / "src/u.py").write_text("A = 1\n", encoding="utf-8")
    (top / "tests/test_u.py").write_text("import u\n", encoding="utf-8")
    place.project.git("add", "-A")
    place.project.git("commit", "-q", "-m", "modules")
    fields = {"id": "A", "slug": "a", "status": "todo", "prompt": "p", "ownsFiles": ["src/u.py"]}
    entry = {**fields, "testCmd": [sys.executable, *words.split()]}
    place.project.state.mkdir()
    (place.project.state / "tracker.json").write_text(json.dumps([entry]), encoding="utf-8")
    told = place.level("imports")
    assert (told[0], says in told[1]) == (level, True), told


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("path", "made", "level", "says"),
    [
        (None, None, "ok", "none"),
        (None, ".git/hooks/pre-commit", "ok", "pre-commit in "),
        (".husky/_", None, "warn", ".husky/_, which does not exist: no hook of yours runs"),
        (".husky/_", ".husky/_/pre-push", "ok", "pre-push in "),
        ("/dev/null", None, "ok", "none"),
    ],
)
def test_hooks_are_named_and_a_missing_folder_of_them_is_told(
    place: Place, path: str | None, made: str | None, level: str, says: str
) -> None:
    top = place.project.top
    if path is not None:
        place.project.git("config", "core.hooksPath", path)
    if made is not None:
        (top / made).parent.mkdir(parents=True, exist_ok=True)
        (top / made).write_text("#!/bin/sh\n", encoding="utf-8")
        (top / made).chmod(0o755)
    told = place.level("hooks")
    assert (told[0], says in told[1]) == (level, True), told


@pytest.mark.more
def test_what_is_to_be_copied_has_to_be_there(place: Place) -> None:
    with place.config.open("a", encoding="utf-8") as config:
        config.write('copy = [".env.test"]\n')
    assert place.level("copy")[0] == "fail"
    (place.project.top / ".env.test").write_text("")
    assert place.level("copy") == ("ok", ".env.test -> ")


@pytest.mark.more
def test_each_line_for_people_has_level_name_detail_and_remedy(place: Place) -> None:
    (place.bin / "claude").unlink()
    done = call(main, "--repo", place.project.top, "--config", place.config)
    assert done.code == 4
    lines = done.out.splitlines()
    assert all(line.split()[0] in ("ok", "warn", "fail") for line in lines)
    assert lines[-1].startswith("fail  backend.program  the program 'claude' was not found")
    assert "  -> install Claude Code" in lines[-1]


def test_a_wrong_configuration_is_one_sentence_and_exit_2(place: Place) -> None:
    place.config.write_text("[backend]\ntimout_s = 1\n", encoding="utf-8")
    done = call(main, "--config", place.config, "--json")
    told = json.loads(done.out)
    assert (done.code, told["schema"]) == (2, "tidegate/error/1")
    assert done.err == f"doctor: {told['error']}\n"
    assert "did you mean backend.timeout_s?" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "why"), [("nowhere", "is not a folder"), ("home", "is in no git repository")]
)
def test_a_named_folder_that_is_in_no_repository_is_exit_2(
    place: Place, name: str, why: str
) -> None:
    done = call(main, "--repo", place.project.home / name)
    assert (done.code, done.out) == (2, "")
    assert why in done.err


@pytest.mark.more
def test_without_a_repository_the_rest_is_looked_at(place: Place) -> None:
    done = call(main, "--json", "--config", place.config)
    checks = {check["name"]: check for check in json.loads(done.out)["checks"]}
    assert done.code == 0
    assert checks["repository"]["level"] == "warn"
    assert "--repo" in checks["repository"]["remedy"]
    assert {"state", "disk.state", "sandbox", "backend.login"} <= set(checks)


@pytest.mark.more
def test_a_key_is_in_no_line_whatever_a_program_prints(place: Place) -> None:
    place.program("claude", 'echo "$ANTHROPIC_API_KEY $ANTHROPIC_API_KEY" >&2; exit 1')
    flags = ("--repo", place.project.top, "--config", place.config, "--network")
    for done in (call(main, *flags), call(main, *flags, "--json")):
        assert "[ANTHROPIC_API_KEY]" in done.out
        assert KEY not in done.out + done.err


@pytest.mark.more
def test_a_program_that_does_not_answer_a_backend_is_told(place: Place) -> None:
    place.program("claude", "echo broken install >&2; exit 3")
    level, told = place.level("backend.program")
    assert level == "fail"
    assert "broken install" in told


@pytest.mark.more
def test_a_backend_that_is_not_logged_in_fails(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    assert place.level("backend.login")[0] == "fail"


@pytest.mark.more
def test_no_agent_is_asked_for_work(place: Place) -> None:
    place.examine("--network")
    assert not Path(os.environ["HOME"], "spent").exists()


@pytest.mark.more
def test_the_reviewers_backend_is_looked_at_too(place: Place) -> None:
    place.configure(
        '[backend]\nname = "command"\ncommand = ["git"]\n[review.backend]\nname = "claude"\n'
    )
    (place.bin / "claude").unlink()
    checks = place.examine()
    assert checks["backend.ready"]["ok"]
    assert not checks["review.backend.program"]["ok"]
    assert "set [review.backend] name" in checks["review.backend.program"]["remedy"]


@pytest.mark.more
@pytest.mark.parametrize("section", ["backend", "review.backend"])
def test_a_backend_that_nobody_knows_fails_and_the_rest_is_looked_at(
    place: Place, section: str
) -> None:
    place.configure(f'[{section}]\nname = "claud"\n')
    check = place.examine()[f"{section}.settings"]
    assert "did you mean 'claude'" in check["remedy"]
    assert not check["ok"]


@pytest.mark.more
def test_without_git_that_is_what_fails(place: Place) -> None:
    (place.bin / "git").unlink()
    done = call(main, "--json", "--config", place.config)
    checks = {check["name"]: check for check in json.loads(done.out)["checks"]}
    assert done.code == 4
    assert (checks["git"]["level"], checks["git"]["remedy"]) == (
        "fail",
        "install git 2.32 or newer",
    )
    assert "without git" in checks["repository"]["detail"]


@pytest.mark.more
def test_an_old_git_fails(place: Place) -> None:
    place.program("git", 'if [ "$1" = version ]; then echo git version 2.31.9; else exit 1; fi')
    done = call(main, "--json", "--config", place.config)
    (check,) = (one for one in json.loads(done.out)["checks"] if one["name"] == "git")
    assert check["detail"] == "git version 2.31.9 is too old"


@pytest.mark.more
def test_a_repository_without_a_commit_fails(place: Place, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "unborn")
    level, told = place.level("repository", repo=tmp_path / "unborn")
    assert level == "fail"
    assert "has no commit yet -> make a commit first" in told


@pytest.mark.more
def test_a_detached_head_is_told(place: Place) -> None:
    git(place.project.top, "checkout", "-q", "--detach")
    level, told = place.level("repository")
    assert level == "warn"
    assert "detached HEAD" in told


@pytest.mark.more
def test_a_shallow_clone_is_told_with_the_setting_of_ci(place: Place, tmp_path: Path) -> None:
    git(place.project.top, "commit", "-q", "--allow-empty", "-m", "more")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{place.project.top}", str(shallow))
    level, told = place.level("history", repo=shallow)
    assert level == "warn"
    assert "fetch-depth: 0" in told


@pytest.mark.more
def test_a_database_that_is_damaged_inside_fails(place: Place) -> None:
    database = place.project.state / "tracker_events.db"
    with EventStore(database) as store:
        for number in range(400):
            store.append("s", "t", {"number": number, "text": "x" * 100})
    body = bytearray(database.read_bytes())
    body[9000:29000] = b"\xa5" * 20000
    database.write_bytes(body)
    level, told = place.level("database")
    assert level == "fail"
    assert "verify_state.py --rebuild" in told


@pytest.mark.more
def test_a_set_halt_switch_is_told_with_the_command_that_clears_it(place: Place) -> None:
    place.project.state.mkdir()
    (place.project.state / ".HALT").write_text('{"reason": "lunch"}', encoding="utf-8")
    level, told = place.level("halt")
    assert level == "warn"
    assert "lunch" in told
    assert f"halt.py --clear --state-dir {place.project.state}" in told


@pytest.mark.more
@pytest.mark.parametrize(
    "content", [b"", b"x" * 50, b"x" * 5000, None], ids=["empty", "short", "other", "cut"]
)
def test_a_database_that_no_run_could_open_fails(place: Place, content: bytes | None) -> None:
    database = place.project.state / "tracker_events.db"
    with EventStore(database) as store:
        store.append("s", "t", {})
    assert place.level("database")[0] == "ok"
    database.write_bytes(database.read_bytes()[:100] if content is None else content)
    before = {path: path.read_bytes() for path in place.project.state.iterdir()}
    level, told = place.level("database")
    assert level == "fail"
    assert "verify_state.py --rebuild" in told
    assert {path: path.read_bytes() for path in place.project.state.iterdir()} == before


@pytest.mark.more
def test_a_state_entry_of_tomorrow_means_that_the_clock_is_wrong(place: Place) -> None:
    place.project.state.mkdir()
    entry = place.project.state / "STATE.md"
    entry.touch()
    tomorrow = time.time() + 86_400
    os.utime(entry, (tomorrow, tomorrow))
    assert place.level("clock")[0] == "fail"


@pytest.mark.more
def test_a_state_folder_where_agents_work_fails(place: Place) -> None:
    work = place.project.home / "work"
    state = work / "state"
    level, told = place.level("state", "--state-dir", state)
    assert level == "fail"
    assert "where agents work" in told
    assert place.level("state", "--state-dir", place.project.home)[0] == "warn"


@pytest.mark.more
def test_the_repository_itself_is_no_state_folder(place: Place) -> None:
    assert place.level("state", "--state-dir", place.project.top)[0] == "fail"


@pytest.mark.more
def test_a_state_folder_that_is_a_file_fails(place: Place) -> None:
    place.project.state.write_text("", encoding="utf-8")
    level, told = place.level("state")
    assert level == "fail"
    assert "is not a folder" in told


@pytest.mark.more
def test_workspaces_in_a_checkout_fail(place: Place) -> None:
    place.config.write_text(f'[workspace]\nroot = "{place.project.top}/w"\n', encoding="utf-8")
    level, told = place.level("workspaces")
    assert level == "fail"
    assert "choose one outside any" in told


@pytest.mark.more
def test_more_tests_than_cores_are_told(place: Place) -> None:
    place.configure("[limits]\nmax_parallel_tests = 9999\n")
    assert place.level("cores")[0] == "warn"


@pytest.mark.more
def test_a_remote_is_asked_only_with_network(place: Place, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "there")
    git(place.project.top, "remote", "add", "origin", str(tmp_path / "there"))
    assert "--network contacts it" in place.level("remote")[1]
    assert place.level("remote", "--network")[0] == "ok"
    shutil.rmtree(tmp_path / "there")
    assert place.level("remote")[0] == "ok"
    level, told = place.level("remote", "--network")
    assert level == "fail"
    assert "does not answer" in told


@pytest.mark.more
def test_a_remote_that_wants_a_password_is_no_prompt_and_shows_none(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        silent.close()
        url = f"http://user:hush-hush@127.0.0.1:{port}/x.git"
        git(place.project.top, "remote", "add", "origin", url)
        level, told = place.level("remote", "--network")
    assert level == "fail"
    assert "hush" not in told
    assert "***@127.0.0.1" in told


@pytest.mark.more
def test_a_remote_that_is_not_there_by_name_fails(place: Place) -> None:
    place.configure('[ship]\nremote = "upstream"\n')
    assert place.level("remote")[0] == "fail"


def without_roots_rights() -> tuple[str, ...]:
    """What runs a program to which the permissions of files apply."""
    if os.geteuid() != 0:
        return ()
    if (setpriv := shutil.which("setpriv", path=os.defpath)) is None:
        pytest.skip("root may write everywhere, and there is no setpriv to give that up")
    return (setpriv, "--inh-caps=-all", "--bounding-set=-all")


@pytest.mark.more
def test_folders_that_an_ordinary_user_may_not_write_fail(place: Place, tmp_path: Path) -> None:
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o555)
    place.configure("")
    place.config.write_text(f'[workspace]\nroot = "{shut}/w"\n', encoding="utf-8")
    where = ("--repo", place.project.top, "--config", place.config, "--state-dir", shut / "s")
    env = {"PATH": str(place.bin)}  # and no HOME
    done = run(DOCTOR, *where, "--json", cwd=Path("/"), env=env, prefix=without_roots_rights())
    checks = {check["name"]: check for check in json.loads(done.out)["checks"]}
    assert (done.code, done.err) == (4, "")
    for name in ("state", "workspaces"):
        assert not checks[name]["ok"]
        assert f"{shut} cannot be written: Permission denied" in checks[name]["detail"]


@pytest.mark.more
def test_without_home_and_with_git_alone_on_the_path_it_runs(place: Place) -> None:
    (place.bin / "claude").unlink()
    where = ("--repo", place.project.top, "--state-dir", place.project.state)
    done = run(DOCTOR, *where, "--json", cwd=Path("/"), env={"PATH": str(place.bin)})
    failed = [one["name"] for one in json.loads(done.out)["checks"] if not one["ok"]]
    assert (done.code, done.err, failed) == (4, "", ["backend.program"])


class Models:
    """A loopback server that answers one thing to whatever it is asked, and remembers that."""

    def __init__(self, status: int, body: str, **headers: str) -> None:
        self.asked: list[tuple[str, str, str]] = []
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append((self.command, self.path, self.headers.get("Authorization", "")))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body.encode())

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                return

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Models:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def served(url: str, more: str = "", name: str = "openai-compatible") -> str:
    """A backend at `url`."""
    return f'[backend]\nname = "{name}"\nbase_url = "{url}"\nmodel = "coder"\n{more}'


LISTED = '{"object": "list", "data": [{"id": "coder"}, {"id": "other"}]}'


@pytest.mark.more
@pytest.mark.parametrize("name", ["openai-compatible", "codex"])
def test_a_server_is_asked_for_its_models_and_nothing_else(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with Models(200, LISTED) as server:
        place.configure(served(server.url, 'api_key_env = "MY_KEY"\n', name))
        checks = place.examine()
    assert (checks["backend.endpoint"]["detail"], checks["backend.model"]["level"]) == (
        server.url,
        "ok",
    )
    assert server.asked == [("GET", "/v1/models", f"Bearer {KEY}")]


@pytest.mark.more
@pytest.mark.parametrize(
    ("status", "body", "name", "level", "words"),
    [
        (200, '{"data": [{"id": "codex"}]}', "model", "warn", "does not list coder"),
        (200, "<html>hello", "endpoint", "warn", "no list of models"),
        (401, f"no such key: {KEY}", "key", "fail", "refused with 401"),
        (404, "", "endpoint", "warn", "does not list its models"),
        (500, "", "endpoint", "warn", "with 500"),
        (418, "", "endpoint", "fail", "with 418"),
    ],
)
def test_what_a_server_answers_is_told_apart(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    body: str,
    name: str,
    level: str,
    words: str,
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with Models(status, body) as server:
        place.configure(served(server.url, 'api_key_env = "MY_KEY"\n'))
        checks = place.examine()
    check = checks[f"backend.{name}"]
    assert check["level"] == level
    assert words in check["detail"]
    assert KEY not in json.dumps(checks)


@pytest.mark.more
def test_a_server_that_sends_us_elsewhere_is_not_followed(place: Place) -> None:
    with Models(200, LISTED) as there, Models(302, "", Location=f"{there.url}/models") as server:
        place.configure(served(server.url))
        level, told = place.level("backend.endpoint")
    assert (level, there.asked) == ("fail", [])
    assert "answers with 302" in told


@pytest.mark.more
def test_a_server_that_is_not_there_fails(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    place.configure(served(f"http://127.0.0.1:{port}/v1"))
    level, told = place.level("backend.endpoint")
    assert level == "fail"
    assert "no answer from" in told


@pytest.mark.more
@pytest.mark.parametrize(
    ("url", "name", "words"),
    [
        ("https://localhost.example/v1", "key", "MY_KEY is not set"),
        ("http://localhost.example/v1", "endpoint", "use https"),
        ("https://user:hush-hush@localhost.example/v1", "endpoint", "user name or password"),
        ("https://user:hush/hush@localhost.example/v1", "endpoint", "port"),
    ],
)
def test_a_server_that_may_not_be_asked_is_not_asked(
    place: Place, url: str, name: str, words: str
) -> None:
    place.configure(served(url, 'api_key_env = "MY_KEY"\n'))
    checks = place.examine()
    assert words in json.dumps(checks[f"backend.{name}"])
    assert not checks[f"backend.{name}"]["ok"]
    assert "hush" not in json.dumps(checks)


CODEX = """
case "$*" in
    --version) echo "codex-cli 9.8.7";;
    "login status --help") echo "Usage: codex login status";;
    "login status") echo "Not logged in"; exit 1;;
    *) echo "$*" >> "$HOME/spent"; exit 9;;
esac
"""


@pytest.mark.more
@pytest.mark.parametrize(
    ("key", "more", "name", "level"),
    [
        ("", "", "login", "fail"),
        (KEY, "", "login", "ok"),
        ("", 'api_key_env = "MY_KEY"\n', "key", "fail"),
        ("", 'base_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n', "program", "ok"),
    ],
)
def test_the_codex_program_is_asked_for_its_login(
    place: Place, monkeypatch: pytest.MonkeyPatch, key: str, more: str, name: str, level: str
) -> None:
    monkeypatch.setenv("CODEX_API_KEY", key)
    place.program("codex", CODEX)
    place.configure(f'[backend]\nname = "codex-cli"\n{more}')
    checks = place.examine()
    assert "codex-cli 9.8.7" in checks["backend.program"]["detail"]
    assert checks[f"backend.{name}"]["level"] == level
    assert ("backend.login" in checks) is (name == "login")
    assert not Path(os.environ["HOME"], "spent").exists()


# It enters no wall, but tells that it did.
LETS_ALL_THROUGH = """while [ "$1" != -- ]; do [ "$1" = --json-status-fd ] && fd=$2; shift; done
shift; eval "echo '{\\"exit-code\\": 0}' >&$fd"; exec "$@\""""


@pytest.mark.more
@pytest.mark.skipif(sys.platform != "linux", reason="bwrap is a program for Linux")
@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (LETS_ALL_THROUGH, "write_home"),
        ("echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1", "uid map"),
        ("exit 0", "did not start"),
    ],
)
def test_a_bwrap_counts_only_when_it_confined_a_program(
    place: Place, script: str, problem: str
) -> None:
    place.program("bwrap", script)
    _, told = place.level("sandbox")
    assert problem in told


@pytest.mark.more
def test_a_wave_that_wants_more_than_the_machine_has_is_told(place: Place) -> None:
    place.configure('[sandbox]\nlevel = "limits"\nrequire = "bwrap"\n')
    level, told = place.level("sandbox")
    assert (level, "no wall of level" in told) == ("fail", True)


def test_a_program_that_agents_could_have_written_is_not_chosen(tmp_path: Path) -> None:
    for folder in ("work", "safe"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tool").write_text("", encoding="utf-8")
        (tmp_path / folder / "tool").chmod(0o755)
    (tmp_path / "link").symlink_to(tmp_path / "work")
    path = os.pathsep.join(["work", *(str(tmp_path / one) for one in ("link", "work", "safe"))])
    assert program_outside("tool", path, [tmp_path / "work"]) == str(tmp_path / "safe" / "tool")
    assert program_outside("tool", str(tmp_path / "work"), [tmp_path / "work"]) is None
    assert program_outside("tool", "safe", []) is None  # relative to wherever we happen to be


def test_a_database_that_lacks_a_table_is_named_damaged(place: Place) -> None:
    with EventStore(place.project.state / "tracker_events.db") as store:
        store.append("s", "t", {})
    with sqlite3.connect(place.project.state / "tracker_events.db") as changed:
        changed.execute("DROP TABLE archived")
    changed.close()
    level, told = place.level("database")
    assert level == "fail"
    assert "its table archived is missing" in str(told)
    assert "rebuild it" in str(told)
