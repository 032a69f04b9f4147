"""Where verified work ends up: wave branches, the checked-out branch, remotes that say no."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from driver.backends.recording import RecordingWriter
from tests.support import warm
from tests.support.beside import beside, beside_on
from tests.support.interpreter import PYTHON
from tests.support.processes import eventually
from tests.support.repos import Checkout, frozen, hook, make_repo
from tests.support.waves import Agent, Scene, ScriptedDriver, built, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="test commands for a POSIX shell")
PROGRAM = Path(__file__).resolve().parents[2] / "driver" / "wave_loop.py"
FILES = {"a.txt": "base\n", "b.txt": "base\n"}
A_GOOD, B_GOOD = "grep -q good a.txt", "grep -q good b.txt"


on_scene = beside_on(lambda folder: nullcontext(Scene(folder, FILES)))


on_pushing = beside_on(lambda folder: nullcontext(Scene(folder, FILES, remote=True)))


def ship_a(scene: Scene, **more: Any) -> dict[str, Any]:
    report, _ = scene.play({"a": writes(a__txt="good\n")}, [item("a", "a.txt", A_GOOD)], **more)
    return report


def current(scene: Scene) -> dict[str, str]:
    return {"expectTopLevel": str(scene.repo.path)}


def heads(repo: Checkout) -> dict[str, str]:
    told = repo.git("for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads")
    return dict(line.split() for line in told.splitlines())


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    return {name for name, _ in before.items() ^ now.items()}


# To a wave branch


@on_pushing
def test_with_a_remote_the_wave_branch_is_pushed_and_main_is_not_moved(pushing: Scene) -> None:
    main = heads(pushing.repo)["main"]
    report = ship_a(pushing)
    assert pushing.remote
    assert heads(pushing.remote) == {"main": main, report["branch"]: report["sha"]}
    assert heads(pushing.repo) == heads(pushing.remote)
    [repo] = report["shipped_repos"]
    assert (repo["committed"], repo["pushed"], repo["error"]) == (True, True, None)
    assert (report["merged"], built(report)["a"]["ship_warning"]) == (False, None)


@on_scene
def test_without_a_remote_the_branch_is_made_here_and_the_report_says_so(scene: Scene) -> None:
    report = ship_a(scene)
    assert (report["shipped"], report["exit_code"]) == (["a"], 0)
    assert heads(scene.repo)[report["branch"]] == report["sha"]
    assert "no remote" in built(report)["a"]["ship_warning"]


@on_pushing
def test_the_user_s_checkout_is_byte_for_byte_what_it_was(pushing: Scene) -> None:
    repo, ran = pushing.repo, pushing.folder / "a-hook-ran"
    repo.git("config", "core.abbrev", "9")
    repo.write({"b.txt": "stashed\n"})
    repo.git("stash")
    repo.write({"b.txt": "staged\n", "a.txt": "mine, not saved yet\n", "untracked.txt": "mine\n"})
    repo.git("add", "b.txt")
    for name in ("post-commit", "reference-transaction", "post-checkout", "post-index-change"):
        hook(repo.path / ".git" / "hooks", name, f"touch {ran}; exit 1")
    for name in ("pre-commit", "commit-msg", "pre-push"):
        hook(repo.path / ".git" / "hooks", name, "echo here > left-over; git status")
    before = frozen(repo.path)
    report = ship_a(pushing)
    assert report["shipped"] == ["a"]
    ref = f"refs/heads/{report['branch']}"
    assert changed(before, frozen(repo.path)) == {f".git/{ref}", f".git/logs/{ref}"}
    assert pushing.files_in(report["sha"]) == {"a.txt": "M"}
    assert not ran.exists()


@pytest.mark.more
@on_pushing
def test_one_wave_id_run_twice_makes_a_second_branch_and_forces_none(pushing: Scene) -> None:
    first = ship_a(pushing)
    second, _ = pushing.play({"b": writes(b__txt="good\n")}, [item("b", "b.txt", B_GOOD)])
    assert second["branch"] == f"{first['branch']}-2"
    assert pushing.remote
    pushed = heads(pushing.remote)
    assert pushed[first["branch"]] == first["sha"]
    assert pushed[second["branch"]] == second["sha"]


@pytest.mark.more
@on_pushing
def test_a_remote_that_refuses_leaves_the_branch_here_and_nothing_shipped(pushing: Scene) -> None:
    assert pushing.remote
    hook(pushing.remote.path / "hooks", "pre-receive", "echo no wave branches here >&2; exit 1")
    before = heads(pushing.remote)
    report = ship_a(pushing)
    record = built(report)["a"]
    assert (report["shipped"], report["exit_code"], record["verified"]) == ([], 1, True)
    assert "no wave branches here" in record["ship_error"]
    assert report["shipped_repos"][0]["error"] == "git_push_failed"
    assert heads(pushing.remote) == before
    assert report["branch"] in record["ship_error"]
    assert heads(pushing.repo)[report["branch"]] == report["sha"]
    assert pushing.files_in(report["sha"]) == {"a.txt": "M"}
    assert "+good" in Path(record["savedWork"]).read_text()


@pytest.mark.more
@on_pushing
def test_a_remote_that_is_gone_leaves_the_branch_here(pushing: Scene) -> None:
    assert pushing.remote
    pushing.remote.path.rename(pushing.folder / "moved.git")
    report = ship_a(pushing)
    assert (report["shipped"], report["exit_code"]) == ([], 1)
    assert report["branch"] in heads(pushing.repo)


@pytest.mark.more
@on_scene
def test_files_that_the_wave_itself_writes_into_the_checkout_blame_nobody(scene: Scene) -> None:
    scene.state = scene.repo.path / "state"
    recording = RecordingWriter(scene.repo.path / "wave.record")
    report = ship_a(scene, recording=recording)
    assert (report["shipped"], built(report)["a"]["ship_error"]) == (["a"], None)


@pytest.mark.more
@on_scene
def test_progress_sent_into_a_file_of_the_checkout_blames_nobody(scene: Scene) -> None:
    agent = ("sh", "-c", "echo good > a.txt")
    config, manifest = scene.folder / "tidegate.toml", scene.folder / "m.json"
    config.write_text(f"[backend]\nname = 'command'\ncommand = {list(agent)}\ntier = 1\n")
    manifest.write_text(json.dumps({"items": [item("a", "a.txt", A_GOOD)]}))
    report, progress = scene.repo.path / "out.json", scene.repo.path / "wave.log"
    with report.open("wb") as out, progress.open("wb") as log:
        done = warm.run(
            [*PYTHON, PROGRAM, "--git", "--manifest", manifest, "--config", config],
            cwd=scene.repo.path,
            env={**scene.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=out,
            stderr=log,
            check=False,
            timeout=60,
        )
    assert done.returncode == 0, progress.read_text()
    assert json.loads(report.read_text())["shipped"] == ["a"]


# Checkouts that are not as in a book


@pytest.mark.more
@on_scene
def test_a_detached_head_works_and_is_told(scene: Scene) -> None:
    head = scene.repo.git("rev-parse", "HEAD")
    scene.repo.git("checkout", "-q", "--detach")
    report = ship_a(scene)
    assert report["shipped"] == ["a"]
    assert scene.repo.git("rev-parse", f"{report['branch']}~1") == head
    assert f"detached HEAD at {head[:12]}" in built(report)["a"]["ship_warning"]
    assert f"detached HEAD at {head[:12]}" in scene.said.getvalue()


@pytest.mark.more
@on_pushing
def test_a_shallow_clone_works_and_is_told(pushing: Scene) -> None:
    assert pushing.remote
    pushing.repo.commit({"b.txt": "second\n"})
    pushing.repo.git("push", "-q")
    shallow = pushing.folder / "shallow"
    pushing.repo.git("clone", "-q", "--depth", "1", f"file://{pushing.remote.path}", str(shallow))
    pushing.repo = Checkout(shallow, pushing.environ)
    report = ship_a(pushing)
    assert (report["shipped"], report["shipped_repos"][0]["pushed"]) == (["a"], True)
    assert heads(pushing.remote)[report["branch"]] == report["sha"]
    assert "shallow clone" in pushing.said.getvalue()


@pytest.mark.more
@on_scene
def test_agents_start_from_the_commit_not_from_unsaved_changes(scene: Scene) -> None:
    scene.repo.write({"a.txt": "unsaved\n", "untracked.txt": "x\n"})
    seen: list[tuple[str, bool]] = []

    def looks(agent: Agent) -> None:
        text = (agent.folder / "a.txt").read_text(encoding="utf-8")
        seen.append((text, (agent.folder / "untracked.txt").exists()))
        agent.write({"a.txt": "good\n"})

    report, _ = scene.play({"a": looks}, [item("a", "a.txt", A_GOOD)])
    assert (seen, report["shipped"]) == ([("base\n", False)], ["a"])
    assert (scene.repo.path / "a.txt").read_text(encoding="utf-8") == "unsaved\n"


@pytest.mark.more
@on_scene
def test_a_linked_worktree_ships_from_its_own_head(scene: Scene) -> None:
    linked = scene.folder / "linked"
    scene.repo.git("worktree", "add", "-q", "-b", "side", str(linked))
    scene.repo = Checkout(linked, scene.environ)
    base = scene.repo.commit({"b.txt": "on the side\n"})
    report = ship_a(scene)
    assert report["shipped"] == ["a"]
    assert scene.repo.git("rev-parse", f"{report['branch']}~1") == base


@pytest.mark.more
@beside
def test_names_that_are_not_plain_ascii_ship_as_they_are(folder: Path) -> None:
    scene = Scene(folder / "\u00e4 b", {"x": "x"}, remote=True)
    names = ["\u00fc.txt", "a b.txt", "q'\"$.txt"]

    def act(agent: Agent) -> None:
        agent.write(dict.fromkeys(names, "good\n"))

    title = "T\u00eate\n\nWave-Id: forged"
    report, _ = scene.play({"a": act}, [item("a", names, "ls", title=title)])
    assert report["shipped"] == ["a"]
    told = scene.repo.git("show", "--format=", "--name-only", "-z", report["sha"])
    assert sorted(told.strip("\0").split("\0")) == sorted(names)
    assert scene.trailers(report["sha"])["Wave-Id"] == "w1"
    assert scene.repo.git("show", "-s", "--format=%s", report["sha"]) == "T\u00eate Wave-Id: forged"


@pytest.mark.more
@beside
def test_modes_links_deletions_and_tracked_ignored_files_ship_as_they_are(folder: Path) -> None:
    scene = Scene(folder, {**FILES, "own.log": "base\n"})
    scene.repo.commit({".gitignore": "*.log\n"})
    scene.repo.git("config", "advice.addIgnoredFile", "false")

    def act(agent: Agent) -> None:
        agent.write({"run.sh": "exit 0\n", "own.log": "own\n", "other.log": "not mine\n"})
        (agent.folder / "run.sh").chmod(0o755)
        (agent.folder / "link").symlink_to("b.txt")
        (agent.folder / "a.txt").unlink()

    owned = ["run.sh", "link", "a.txt", "own.log"]
    report, _ = scene.play({"a": act}, [item("a", owned, "./run.sh && test ! -e a.txt")])
    assert report["shipped"] == ["a"]
    told = scene.repo.git("ls-tree", "-r", "--format=%(objectmode) %(path)", report["sha"])
    assert {line.split()[1]: line.split()[0] for line in told.splitlines()} == {
        ".gitignore": "100644",
        "b.txt": "100644",
        "link": "120000",
        "own.log": "100644",
        "run.sh": "100755",
    }


@pytest.mark.more
@beside
def test_what_a_test_leaves_behind_is_in_no_commit_and_no_other_test_meets_it(
    folder: Path,
) -> None:
    scene = Scene(folder, FILES, config="[limits]\nmax_parallel_tests = 1\n")
    leaves = "test ! -e left && echo x > left"
    report, _ = scene.play(
        {"a": writes(a__txt="good\n"), "b": writes(b__txt="good\n")},
        [item("a", "a.txt", leaves), item("b", "b.txt", leaves)],
    )
    assert report["shipped"] == ["a", "b"]
    assert "left" not in scene.repo.git("ls-tree", "--name-only", report["sha"])


# To the checked-out branch


@pytest.mark.more
@on_pushing
def test_expect_top_level_alone_ships_to_the_checked_out_branch(pushing: Scene) -> None:
    pushing.repo.write({"b.txt": "unsaved\n", "untracked.txt": "x\n"})
    report = ship_a(pushing, git=current(pushing))
    assert (report["shipped"], report["branch"], report["exit_code"]) == (["a"], "main", 0)
    assert pushing.remote
    assert heads(pushing.remote) == {"main": report["sha"]}
    assert heads(pushing.repo) == {"main": report["sha"]}
    assert (pushing.repo.path / "a.txt").read_text() == "good\n"
    assert pushing.repo.git("status", "--porcelain").split("\n") == ["M b.txt", "?? untracked.txt"]


@pytest.mark.more
@on_scene
def test_without_a_remote_the_checked_out_branch_moves_with_a_warning(scene: Scene) -> None:
    report = ship_a(scene, git=current(scene))
    assert (report["shipped"], heads(scene.repo)) == (["a"], {"main": report["sha"]})
    assert "no remote" in built(report)["a"]["ship_warning"]


@pytest.mark.more
@on_pushing
def test_unpushed_commits_of_the_branch_are_pushed_along_as_git_would(pushing: Scene) -> None:
    mine = pushing.repo.commit({"b.txt": "not pushed yet\n"})
    report = ship_a(pushing, git=current(pushing))
    assert report["shipped"] == ["a"]
    assert pushing.remote
    assert heads(pushing.remote) == {"main": report["sha"]}
    assert pushing.remote.git("rev-parse", "main~1") == mine


@pytest.mark.more
@on_pushing
def test_a_branch_that_the_remote_does_not_have_is_pushed_as_new(pushing: Scene) -> None:
    pushing.repo.git("checkout", "-qb", "topic")
    report = ship_a(pushing, git=current(pushing))
    assert pushing.remote
    assert heads(pushing.remote)["topic"] == report["sha"]


@pytest.mark.more
@on_scene
def test_unsaved_changes_in_a_shipped_file_are_never_overwritten(scene: Scene) -> None:
    before = heads(scene.repo)
    scene.repo.write({"a.txt": "unsaved\n"})
    report = ship_a(scene, git=current(scene))
    assert (report["shipped"], report["exit_code"]) == ([], 1)
    assert (scene.repo.path / "a.txt").read_text() == "unsaved\n"
    kept = report["branch"]
    assert kept in built(report)["a"]["ship_error"]
    assert heads(scene.repo)["main"] == before["main"]
    assert scene.files_in(heads(scene.repo)[kept]) == {"a.txt": "M"}


@pytest.mark.more
@on_pushing
def test_with_a_remote_unsaved_changes_only_keep_the_checkout_behind(pushing: Scene) -> None:
    main = heads(pushing.repo)["main"]
    pushing.repo.write({"a.txt": "unsaved\n"})
    report = ship_a(pushing, git=current(pushing))
    assert report["shipped"] == ["a"]
    assert pushing.remote
    assert heads(pushing.remote) == {"main": report["sha"]}
    assert heads(pushing.repo)["main"] == main
    assert "not checked out here" in built(report)["a"]["ship_warning"]
    assert (pushing.repo.path / "a.txt").read_text() == "unsaved\n"


@pytest.mark.more
@on_pushing
def test_a_refused_push_ships_nothing_and_keeps_the_commits_here(pushing: Scene) -> None:
    assert pushing.remote
    hook(pushing.remote.path / "hooks", "pre-receive", "exit 1")
    before = frozen(pushing.repo.path), heads(pushing.remote)
    report = ship_a(pushing, git=current(pushing))
    assert (report["shipped"], report["exit_code"]) == ([], 1)
    assert report["shipped_repos"][0]["error"] == "git_push_failed"
    assert heads(pushing.remote) == before[1]
    ref = f"refs/heads/{report['branch']}"
    assert report["branch"].startswith("wave/")
    assert changed(before[0], frozen(pushing.repo.path)) == {f".git/{ref}", f".git/logs/{ref}"}
    assert pushing.files_in(report["branch"]) == {"a.txt": "M"}


@pytest.mark.more
@on_scene
def test_a_detached_head_has_no_branch_to_ship_to_and_the_work_is_kept(scene: Scene) -> None:
    scene.repo.git("checkout", "-q", "--detach")
    report = ship_a(scene, git=current(scene))
    assert (report["shipped"], report["exit_code"]) == ([], 1)
    assert "detached" in built(report)["a"]["ship_error"]
    assert scene.files_in(report["branch"]) == {"a.txt": "M"}


# Which repository


ABORTS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "git_toplevel_mismatch": (
        [item("a", "a.txt", "true", repo="{repo}")],
        {"expectTopLevel": "{other}"},
    ),
    "git_toplevel_check_failed": ([item("a", "a.txt", "true")], {"expectTopLevel": "{plain}"}),
    "mixed_repo_manifest": (
        [item("a", "a.txt", "true", repo="{repo}"), item("b", "b.txt", "true")],
        {"expectTopLevel": "{repo}"},
    ),
    "repo_field_missing_no_default": ([item("a", "a.txt", "true")], {"expectTopLevel": ""}),
    "git_toplevel_missing_or_empty": ([item("a", "a.txt", "true", repo="{repo}")], {}),
    "invalid_repo_path": (
        [item("a", "a.txt", "true", repo="{repo}/sub")],
        {"expectTopLevel": "{repo}"},
    ),
    "invalid_work_dir": (
        [item("a", "a.txt", "true", workDir="nowhere")],
        {"expectTopLevel": "{repo}"},
    ),
    "ownership_overlap": (
        [item("a", "sub/", "true"), item("b", "x.txt", "true", workDir="sub")],
        {"expectTopLevel": "{repo}"},
    ),
    "invalid_manifest": ([item("a", "../a.txt", "true")], {"expectTopLevel": "{repo}"}),
    "invalid_input": ([item("a", "a.txt", "true")], {"expectTopLevel": "{repo}", "mode": "brnch"}),
}


@pytest.mark.more
@pytest.mark.parametrize("word", ABORTS)
@beside
def test_what_is_wrong_from_the_start_aborts_before_anyone_is_dispatched(
    folder: Path, word: str
) -> None:
    scene = Scene(folder, {**FILES, "sub/x.txt": "x\n"})
    make_repo(folder / "other", scene.environ, FILES)
    (folder / "plain").mkdir()
    places = {name: str(folder / name) for name in ("repo", "other", "plain")}
    items, git = ABORTS[word]
    filled = [{k: _filled(v, places) for k, v in one.items()} for one in items]
    driver = ScriptedDriver({}, environ=scene.environ)
    before = frozen(scene.repo.path)
    report = scene.run(driver, filled, git={k: _filled(v, places) for k, v in git.items()})
    assert (report["abort_reason"], report["exit_code"]) == (word, 2)
    assert (report["aborted"], report["preflight_ok"]) == (True, False)
    assert (report["built"], report["shipped"], driver.requests) == ([], None, [])
    assert report["error"].count("\n") == 0
    assert frozen(scene.repo.path) == before


def _filled(value: Any, places: Mapping[str, str]) -> Any:
    return value.format(**places) if isinstance(value, str) else value


@pytest.mark.more
@beside
def test_a_repository_without_a_commit_aborts_with_its_own_word(folder: Path) -> None:
    scene = Scene(folder, FILES)
    scene.repo = Checkout(folder / "unborn", scene.environ)
    scene.repo.path.mkdir()
    scene.repo.git("init", "-q")
    report = ship_a(scene)
    assert (report["abort_reason"], report["exit_code"]) == ("invalid_input", 2)
    assert "no commit yet" in report["error"]


@pytest.mark.more
@beside
def test_each_repository_of_a_manifest_is_shipped_on_its_own(folder: Path) -> None:
    scene = Scene(folder, FILES, remote=True)
    assert scene.remote
    hook(scene.remote.path / "hooks", "pre-receive", "exit 1")
    other = make_repo(folder / "other", scene.environ, FILES)
    manifest = [
        item("a", "a.txt", A_GOOD, repo=str(scene.repo.path)),
        item("same-file", "a.txt", A_GOOD, repo=str(other.path)),
        item("b", "b.txt", B_GOOD, repo=str(other.path)),
    ]
    good = writes(a__txt="good\n")
    scripts = {"a": good, "same-file": good, "b": writes(b__txt="good\n")}
    report, _ = scene.play(scripts, manifest, git={"mode": "branch"})
    assert set(verdicts(report).values()) == {"verified"}
    assert (report["shipped"], report["exit_code"]) == (["same-file", "b"], 1)
    failed, shipped = report["shipped_repos"]
    assert (failed["repo"], failed["error"]) == (str(scene.repo.path), "git_push_failed")
    assert (shipped["repo"], shipped["error"]) == (str(other.path), None)
    assert heads(other)[shipped["branch"]] == shipped["sha"]
    assert (report["branch"], report["sha"]) != (failed["branch"], failed["sha"])


@pytest.mark.more
@beside
def test_a_repository_that_breaks_on_the_way_leaves_the_others_alone(folder: Path) -> None:
    scene = Scene(folder, FILES)
    other = make_repo(folder / "other", scene.environ, FILES)

    def is_verified() -> bool:
        entries = (path.read_text() for path in (scene.state / "journal").glob("*--a.json"))
        return any(json.loads(entry)["phase"] == "verified" for entry in entries)

    def breaks(agent: Agent) -> None:
        agent.write({"b.txt": "good\n"})
        assert eventually(is_verified, within_s=20)
        (scene.repo.path / ".git" / "index").write_text("no index")

    report, _ = scene.play(
        {"a": writes(a__txt="good\n"), "b": breaks},
        [
            item("a", "a.txt", A_GOOD, repo=str(scene.repo.path)),
            item("b", "b.txt", B_GOOD, repo=str(other.path)),
        ],
        git={"mode": "branch"},
    )
    assert (report["shipped"], report["exit_code"]) == (["b"], 1)
    assert report["shipped_repos"][0]["error"] == "could_not_ship"
    assert "+good" in Path(built(report)["a"]["savedWork"]).read_text()


@pytest.mark.more
@beside
def test_a_work_folder_below_the_top_is_where_agent_and_test_run(folder: Path) -> None:
    scene = Scene(folder, {"sub/a.txt": "base\n", "a.txt": "base\n"})
    report, driver = scene.play(
        {"a": writes(a__txt="good\n")}, [item("a", "a.txt", A_GOOD, workDir="sub")]
    )
    assert report["shipped"] == ["a"]
    assert Path(driver.requests[0].workdir).name == "sub"
    assert scene.files_in(report["sha"]) == {"sub/a.txt": "M"}


@pytest.mark.more
@on_pushing
def test_a_branch_called_wave_costs_nobody_the_work(pushing: Scene) -> None:
    pushing.repo.git("branch", "wave")
    report = ship_a(pushing)
    assert report["shipped"] == ["a"]
    assert report["branch"].startswith("wave-")
    assert pushing.remote
    assert heads(pushing.remote)[report["branch"]] == report["sha"]
