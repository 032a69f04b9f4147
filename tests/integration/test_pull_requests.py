"""A wave branch that was pushed becomes a pull request, once, by `gh` or a user's command."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from driver.execution.cancellation import CancellationToken
from driver.pull_requests.body import Proposed, PullRequest
from driver.pull_requests.outbox import MAX_TRIES, OutboxEntry, Proposal, save
from driver.pull_requests.request import propose_left
from state_store.database.store import EventStore
from tests.support.forges import FakeGh, fake_gh
from tests.support.interpreter import PYTHON
from tests.support.programs import Project, git
from tests.support.programs import item as build_item
from tests.support.repos import hook
from tests.support.waves import Scene, built, item, writes
from tools import halt
from tools.settings.load import load

A_GOOD = ["grep", "-qx", "good", "a.txt"]
B_GOOD = ["grep", "-qx", "good", "b.txt"]
FILES = {"a.txt": "base\n", "b.txt": "base\n"}
WEB = "https://github.com/acme/widgets.git"
OFF = '[review]\nmode = "off"\n[verify]\ncanary = false\nred_first = "off"\n'


def a_scene(folder: Path, ship: str = 'pr = "draft"', **environ: str) -> tuple[Scene, FakeGh]:
    """A user whose remote is called by GitHub's address and pushed to a folder."""
    gh = fake_gh(folder / "gh")
    path = f"{gh.bin}{os.pathsep}{os.environ['PATH']}"
    told = {"PATH": path, "GH_TOKEN": "t-of-the-user", "ANTHROPIC_API_KEY": "k-of-a-model"}
    config = f"{OFF}[ship]\n{ship}\n"
    scene = Scene(folder, FILES, remote=True, config=config, environ=told | environ)
    assert scene.remote
    scene.repo.git("remote", "set-url", "origin", WEB)
    scene.repo.git("remote", "set-url", "--push", "origin", str(scene.remote.path))
    return scene, gh


def ship_a(scene: Scene, **more: Any) -> dict[str, Any]:
    title = more.pop("title", "Make a good; fixes #12, says @octocat")
    scripts = {"a": writes(a__txt="good\n")}
    return scene.play(scripts, [item("a", "a.txt", A_GOOD, title=title)], **more)[0]


def events(scene: Scene, wave: str = "w1") -> list[dict[str, Any]]:
    with EventStore(scene.state / "tracker_events.db") as store:
        found = store.read(f"wave:{wave}")
    return [dict(e["payload"]) for e in found if e["type"] == "pull_request"]


def test_a_pushed_branch_becomes_a_draft_that_names_what_was_proven(tmp_path: Path) -> None:
    scene, gh = a_scene(tmp_path)
    notes = scene.state / "runs" / "w1" / "a" / "pr.md"
    notes.parent.mkdir(parents=True)
    notes.symlink_to(tmp_path / "home" / ".gitconfig")  # nothing to show to the world
    report = ship_a(scene)
    [repo] = report["shipped_repos"]
    assert (report["exit_code"], repo["prError"]) == (0, None)
    url = "https://github.com/acme/widgets/pull/1"
    assert repo["pr"] == {"url": url, "number": 1, "state": "draft"}
    assert report["pull_requests"][0]["sha"] == repo["sha"]
    [call] = gh.created
    flags = {word.partition("=")[0]: word.partition("=")[2] for word in call["argv"][2:]}
    assert flags["--head"] == repo["branch"]
    assert (flags["--base"], flags["--repo"], flags["--draft"]) == ("main", "acme/widgets", "")
    assert flags["--title"] == "Make a good; fixes # 12, says @ octocat"
    assert "#12" not in call["body"]
    assert "Ursula" not in call["body"]
    assert f"`{repo['sha'][:12]}`" in call["body"]
    assert call["cwd"] == str(scene.repo.path)
    assert (call["env"]["GH_TOKEN"], call["env"]["GH_PROMPT_DISABLED"]) == ("t-of-the-user", "1")
    assert "ANTHROPIC_API_KEY" not in call["env"]
    [event] = events(scene)
    assert (event["url"], event["commit"], event["error"]) == (url, repo["sha"], None)


@pytest.mark.more
def test_without_the_setting_nobody_is_asked(tmp_path: Path) -> None:
    scene, gh = a_scene(tmp_path, 'pr = "none"')
    report = ship_a(scene)
    assert (report["exit_code"], report["pull_requests"], gh.calls) == (0, [], [])
    assert report["shipped_repos"][0]["pr"] is None


@pytest.mark.more
def test_a_request_that_cannot_be_made_unships_nothing_and_is_made_by_the_next_run(
    tmp_path: Path,
) -> None:
    scene, gh = a_scene(tmp_path)
    gh.order(fail="error: rate limited, see https://user:secret@github.com/")
    report = ship_a(scene)
    [repo] = report["shipped_repos"]
    assert (report["shipped"], report["exit_code"]) == (["a"], 1)
    assert built(report)["a"]["commit"] == repo["sha"]
    assert "rate limited" in repo["prError"]
    assert "secret" not in repo["prError"]
    gh.order()
    scripts = {"b": writes(b__txt="good\n")}
    later, _ = scene.play(scripts, [item("b", "b.txt", B_GOOD)], wave_id="w2")
    assert later["exit_code"] == 0
    told = {one["wave_id"]: one["pr"]["number"] for one in later["pull_requests"]}
    assert told == {"w2": 1, "w1": 2}
    assert [call["body"] for call in gh.created if repo["branch"] in str(call["argv"])] != [""]
    assert [event["error"] is None for event in events(scene)] == [False, True]
    again, _ = scene.play({}, [item("b", "b.txt", B_GOOD)], wave_id="w3", resume=True)
    assert again["pull_requests"][0]["pr"]["number"] == 1
    assert len(gh.created) == 2


@pytest.mark.more
def test_a_request_that_is_there_is_reported_and_not_doubled(tmp_path: Path) -> None:
    scene, gh = a_scene(tmp_path)
    gh.order(fail="no network")
    branch = ship_a(scene)["shipped_repos"][0]["branch"]
    request = {"number": 7, "url": "u", "state": "CLOSED", "isDraft": False, "headRefName": branch}
    gh.people({**request, "headRepositoryOwner": {"login": "acme"}})
    gh.order()
    again, _ = scene.play({}, [item("a", "a.txt", A_GOOD)], resume=True)
    assert again["pull_requests"][0]["pr"] == {"url": "u", "number": 7, "state": "closed"}
    assert gh.created == []


@pytest.mark.more
def test_what_was_made_and_not_heard_of_is_found(tmp_path: Path) -> None:
    scene, gh = a_scene(tmp_path, 'pr = "ready"')
    gh.order(late="the connection was lost")
    report = ship_a(scene)
    assert "connection was lost" in report["shipped_repos"][0]["prError"]
    gh.order()
    again, _ = scene.play({}, [item("a", "a.txt", A_GOOD)], resume=True)
    assert [one["pr"]["number"] for one in again["pull_requests"]] == [1]
    assert (again["exit_code"], len(gh.requests), len(gh.created)) == (0, 1, 1)


@pytest.mark.more
def test_a_branch_whose_run_died_before_it_could_ask_is_asked_for_by_the_next(
    tmp_path: Path,
) -> None:
    scene, gh = a_scene(tmp_path)
    first = ship_a(scene)
    [kept] = (scene.state / "pull_requests").glob("*.json")
    kept.unlink()  # as if the run had died right after its push
    gh.people()
    entry = next((scene.state / "journal").glob("*a.json"))
    assert json.loads(entry.read_text())["commit"]
    again, _ = scene.play(
        {"b": writes(b__txt="good\n")},
        [item("a", "a.txt", A_GOOD), item("b", "b.txt", B_GOOD)],
        wave_id="w2",
        resume=True,
    )
    told = {one["branch"]: one["pr"]["number"] for one in again["pull_requests"]}
    assert set(told) == {first["shipped_repos"][0]["branch"], again["shipped_repos"][0]["branch"]}
    body = next(
        c["body"] for c in gh.created[1:] if first["shipped_repos"][0]["branch"] in c["body"]
    )
    assert "| `a` | verified |" in body
    assert "| `b` |" not in body


@pytest.mark.more
def test_a_halt_keeps_anyone_from_asking(tmp_path: Path) -> None:
    scene, gh = a_scene(tmp_path)
    assert scene.remote
    hook(scene.remote.path / "hooks", "post-receive", f"echo enough > '{scene.state}/.HALT'")
    report = ship_a(scene)
    assert (report["shipped"], gh.calls) == (["a"], [])
    assert (report["exit_code"], report["abort_reason"]) == (3, "halted")
    assert "the next run does that" in report["shipped_repos"][0]["prError"]
    halt.clear_halt(state_dir=scene.state)
    again, _ = scene.play({}, [item("a", "a.txt", A_GOOD)], resume=True)
    assert (again["exit_code"], len(gh.created)) == (0, 1)


@pytest.mark.more
def test_the_body_shows_what_was_left_out_and_the_notes_of_the_work(tmp_path: Path) -> None:
    scene, gh = a_scene(tmp_path)
    notes = scene.state / "runs" / "w1" / "a" / "pr.md"
    notes.parent.mkdir(parents=True)
    notes.write_text("```\n@octocat closes #1 <img src=x>", encoding="utf-8")
    scripts = {"a": writes(a__txt="good\n"), "b": [writes(b__txt="bad\n")] * 4}
    items = [item("a", "a.txt", A_GOOD), item("b", "b.txt", B_GOOD)]
    report, _ = scene.play(scripts, items)
    assert report["exit_code"] == 1
    [call] = gh.created
    assert "    @ octocat closes # 1 <img src=x>" in call["body"]
    assert "`b`: failed" in call["body"]


@pytest.mark.more
def test_a_secret_in_a_text_is_hidden(tmp_path: Path) -> None:
    scene, gh = a_scene(tmp_path, MY_TOKEN="hunter2-hunter2-x")
    notes = scene.state / "runs" / "w1" / "a" / "pr.md"
    notes.parent.mkdir(parents=True)
    notes.write_text("say hunter2-hunter2-x", encoding="utf-8")
    assert ship_a(scene)["exit_code"] == 0
    [call] = gh.created
    assert "hunter2" not in json.dumps(call["argv"]) + call["body"]
    assert "TOKEN" in call["body"]


@pytest.mark.more
def test_a_text_that_holds_a_secret_is_left_out(tmp_path: Path) -> None:
    scene, gh = a_scene(tmp_path, MY_TOKEN="hunter-hunter-x")  # too plain to be hidden in a text
    notes = scene.state / "runs" / "w1" / "a" / "pr.md"
    notes.parent.mkdir(parents=True)
    notes.write_text("say hunter-hunter-x", encoding="utf-8")
    report = ship_a(scene)
    assert report["exit_code"] == 0
    [call] = gh.created
    assert "hunter-" not in json.dumps(call["argv"]) + call["body"]
    assert "Texts were left out" in call["body"]


@pytest.mark.more
def test_a_command_of_the_users_makes_it_elsewhere(tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    program = tmp_path / "forge.py"
    program.write_text(
        "import json, os, pathlib, sys\n"
        "told = {k: v for k, v in os.environ.items() if k.startswith('TIDEGATE_PR_')}\n"
        "told['body'] = pathlib.Path(sys.argv[2]).read_text()\n"
        f"pathlib.Path({str(log)!r}).write_text(json.dumps([sys.argv[1:], told, os.getcwd()]))\n"
        "print('made', 'https://git.example.org/acme/widgets/-/merge_requests/41', '.')\n"
    )
    command = json.dumps([*PYTHON, str(program), "{head}", "{body_file}", "{state}{title}"])
    scene, gh = a_scene(tmp_path, f'pr = "ready"\npr_command = {command}')
    report = ship_a(scene, title="{head}")
    [repo] = report["shipped_repos"]
    url = "https://git.example.org/acme/widgets/-/merge_requests/41"
    assert repo["pr"] == {"url": url, "number": 41, "state": "open"}
    (head, _, state), told, cwd = json.loads(log.read_text())
    assert (head, state, cwd) == (repo["branch"], "ready{head}", str(scene.repo.path))
    assert (told["TIDEGATE_PR_BASE"], told["TIDEGATE_PR_COMMIT"]) == ("main", repo["sha"])
    assert told["body"].startswith("Tidegate built and proved 1 item")
    assert gh.calls == []


@pytest.mark.more
@pytest.mark.parametrize("mode", ["current", "unpushed"])
def test_only_a_wave_branch_that_was_pushed_is_proposed(mode: str, tmp_path: Path) -> None:
    scene, gh = a_scene(tmp_path)
    if mode == "unpushed":
        assert scene.remote
        hook(scene.remote.path / "hooks", "pre-receive", "exit 1")
        ship_a(scene)
    else:
        ship_a(scene, git={"expectTopLevel": str(scene.repo.path)})
    assert gh.calls == []


@pytest.mark.more
def test_a_machine_without_gh_is_told_so_once_all_is_shipped(tmp_path: Path) -> None:
    scene, gh = a_scene(tmp_path)
    (gh.bin / "gh").unlink()
    report = ship_a(scene)
    assert (report["shipped"], report["exit_code"]) == (["a"], 1)
    assert report["shipped_repos"][0]["prError"].startswith("gh is not installed")


@pytest.mark.more
def test_what_is_refused_for_ever_is_given_up(tmp_path: Path) -> None:
    kept = Proposal("gone", "w1", "wave/w1", "c" * 40, "main", "t", "b", "acme/widgets")
    save(tmp_path, OutboxEntry(kept))
    told: list[str] = []
    config = tmp_path / "t.toml"
    config.write_text('[ship]\npr = "ready"\n', encoding="utf-8")
    settings = load(project=tmp_path, config=config, environ={}, cwd=tmp_path)
    for _ in range(MAX_TRIES + 2):
        answers = propose_left(
            settings, tmp_path, CancellationToken(), told.append, lambda _, step: None
        )
    assert answers == ()
    assert [("given up" in line, "gone is gone" in line) for line in told] == [
        *[(False, True)] * (MAX_TRIES - 1),
        (True, True),
    ]


@pytest.mark.more
def test_a_run_without_a_wave_asks_for_what_was_left(tmp_path: Path) -> None:
    scene, gh = a_scene(tmp_path)
    gh.order(fail="no network")
    ship_a(scene)
    gh.order()
    noted: list[tuple[str, Any]] = []
    told: list[str] = []

    def record(wave: str, step: Any) -> None:
        noted.append((wave, step["number"]))

    scene.state.joinpath(".HALT").write_text("enough")
    [held] = propose_left(scene.settings, scene.state, CancellationToken(), told.append, record)
    assert (held.made, len(gh.requests)) == (None, 0)
    scene.state.joinpath(".HALT").unlink()
    [made] = propose_left(scene.settings, scene.state, CancellationToken(), told.append, record)
    assert (made.error, noted, len(gh.requests)) == (None, [("w1", None), ("w1", 1)], 1)
    assert propose_left(scene.settings, scene.state, CancellationToken(), told.append, record) == ()


@pytest.mark.more
def test_a_repository_that_is_named_later_counts_for_what_was_left(tmp_path: Path) -> None:
    gh = fake_gh(tmp_path / "gh")
    config = tmp_path / "t.toml"
    config.write_text('[ship]\npr = "draft"\n', encoding="utf-8")
    save(
        tmp_path, OutboxEntry(Proposal(str(tmp_path), "w1", "wave/w1", "c" * 40, "main", "t", "b"))
    )

    def ask(**environ: str) -> str | None:
        path = f"{gh.bin}{os.pathsep}{os.environ['PATH']}"
        environ |= {"PATH": path}
        settings = load(project=tmp_path, config=config, environ=environ, cwd=tmp_path)
        said: list[str] = []
        [told] = propose_left(
            settings, tmp_path, CancellationToken(), said.append, lambda _, step: None
        )
        return told.error

    assert "GH_REPO" in str(ask())
    save(
        tmp_path,
        OutboxEntry(Proposal("/another", "w2", "wave/w2", "d" * 40, "main", "t", "b"), tries=5),
    )
    assert ask(GH_REPO="acme/widgets") is None
    assert [call["argv"][-1] for call in gh.created] == ["--repo=acme/widgets"]


def test_two_runs_that_ask_at_once_make_one(tmp_path: Path) -> None:
    log = tmp_path / "made"
    program = f"import time; time.sleep(0.3); open({str(log)!r}, 'a').write('x')"
    command = json.dumps([*PYTHON, "-c", program])
    config = tmp_path / "t.toml"
    config.write_text(f'[ship]\npr = "ready"\npr_command = {command}\n', encoding="utf-8")
    settings = load(project=tmp_path, config=config, environ={}, cwd=tmp_path)
    kept = Proposal(str(tmp_path), "w1", "wave/w1", "c" * 40, "main", "t", "b")
    save(tmp_path, OutboxEntry(kept))

    def ask() -> tuple[Proposed, ...]:
        return propose_left(
            settings, tmp_path, CancellationToken(), lambda _: None, lambda _, step: None
        )

    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(ask), pool.submit(ask)]
        told = [answer for future in futures for answer in future.result()]
    assert log.read_text() == "x"
    assert {one.made for one in told} == {PullRequest(None, None, "open")}


@pytest.mark.more
def test_a_night_with_nothing_to_do_asks_for_what_was_left(project: Project) -> None:
    git(project.home, "init", "-q", "--bare", "remote.git")
    project.git("remote", "add", "origin", str(project.home / "remote.git"))
    ready = project.home / "ready"
    command = f"test -e {ready} && echo https://git.example.org/acme/widgets/pull/7"
    argv = json.dumps(["sh", "-c", command])
    project.configure(f'[ship]\npr = "ready"\npr_command = {argv}\n')
    project.track(build_item("a"))
    assert project.schedule().code == 1
    idle = project.schedule()
    assert (idle.code, idle.report["success"], idle.report["phase"]) == (1, False, "intake")
    ready.touch()
    made = project.schedule()
    assert (made.code, made.report["success"]) == (0, True)
    assert [one["pr"]["number"] for one in made.report["pull_requests"]] == [7]
    assert "pull/7" in made.err
    assert "pull_requests" not in project.schedule().report
