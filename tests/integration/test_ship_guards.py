"""What keeps one item out of a ship and leaves the others alone: secrets, ignored files, hooks."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.support.beside import beside, beside_on
from tests.support.processes import patient
from tests.support.repos import frozen, hook
from tests.support.secrets import github, noise
from tests.support.waves import Agent, Scene, Step, built, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="test commands for a POSIX shell")
FILES = {"a.txt": "base\n", "b.txt": "base\n"}
A_GOOD, B_GOOD = "grep -q good a.txt", "grep -q good b.txt"


on_scene = beside_on(lambda folder: nullcontext(Scene(folder, FILES, remote=True)))


def everything(folder: Path) -> bytes:
    """All that a wave wrote down for people: reports are the callers', so not among it."""
    return b"".join(path.read_bytes() for path in folder.rglob("*.json"))


# Secrets


@on_scene
def test_a_secret_keeps_its_item_back_and_the_others_ship(scene: Scene) -> None:
    secret = github()
    report, _ = scene.play(
        {"a": writes(a__txt=f"good\nuse {secret}\n"), "b": writes(b__txt="good\n")},
        [item("a", "a.txt", A_GOOD, repairCap=0), item("b", "b.txt", B_GOOD)],
    )
    assert (report["shipped"], verdicts(report)["a"]) == (["b"], "refused")
    reason = built(report)["a"]["error"]
    assert "secret found" in reason
    assert "a.txt:2 github_token" in reason
    assert secret not in str(report) + scene.said.getvalue()
    assert secret.encode() not in everything(scene.state)
    assert scene.remote is not None
    assert "good" not in scene.remote.git("show", f"{report['branch']}:a.txt")


@pytest.mark.more
@on_scene
def test_the_agent_is_told_of_the_secret_and_may_take_it_out(scene: Scene) -> None:
    report, driver = scene.play(
        {"a": [writes(a__txt=f"good {github()}\n"), writes(a__txt="good\n")]},
        [item("a", "a.txt", A_GOOD, repairCap=1)],
    )
    assert report["shipped"] == ["a"]
    assert "secret found" in driver.rounds_of("a")[1].prompt


@pytest.mark.more
@beside
def test_a_secret_of_this_machine_is_known_by_its_value(folder: Path) -> None:
    value = "plain words nobody suspects"
    scene = Scene(folder, FILES, environ={"MY_SERVICE_TOKEN": value})
    report, _ = scene.play(
        {"a": writes(a__txt=f"good {value}\n")}, [item("a", "a.txt", A_GOOD, repairCap=0)]
    )
    assert verdicts(report) == {"a": "refused"}
    assert "MY_SERVICE_TOKEN" in built(report)["a"]["error"]
    assert value not in str(report)


@pytest.mark.more
@beside
def test_what_the_base_has_published_already_is_nobodys_secret(folder: Path) -> None:
    scene = Scene(folder, {"a.txt": f"{github()}\n", "b.txt": "base\n"})
    report, _ = scene.play(
        {"a": writes(a__txt=f"good\n{github()}\n")}, [item("a", "a.txt", A_GOOD)]
    )
    assert report["shipped"] == ["a"]


@pytest.mark.more
@pytest.mark.parametrize("found_out", [False, True])
@beside
def test_work_of_an_earlier_run_is_looked_through_too(folder: Path, *, found_out: bool) -> None:
    value = noise(24)
    scene = Scene(folder, FILES)
    work = [item("a", "a.txt", A_GOOD, repairCap=0)]
    refuses = scene.repo.path / ".git" / "hooks"
    hook(refuses, "pre-push", "exit 1")
    scene.repo.git("remote", "add", "origin", str(folder / "nowhere"))
    first, _ = scene.play({"a": writes(a__txt=f"good {value}\n")}, work)
    assert verdicts(first) == {"a": "verified"}
    assert first["shipped"] == []
    scene.repo.git("remote", "remove", "origin")
    if found_out:
        scene.environ["NEW_API_KEY"] = value
    second, driver = scene.play({"a": writes(a__txt="good\n")}, work, wave_id="w2", resume=True)
    assert second["shipped"] == ["a"]
    assert len(driver.rounds_of("a")) == found_out
    assert (value in scene.repo.git("show", f"{second['branch']}:a.txt")) is not found_out


# Files that git ignores


@pytest.mark.more
@beside
def test_an_ignored_file_keeps_its_item_back_before_anything_is_spent(folder: Path) -> None:
    scene = Scene(folder, {**FILES, ".gitignore": "*.log\nmade/\n"}, remote=True)
    before = frozen(scene.repo.path)
    owned = ["a.txt", "own.log"]
    report, driver = scene.play(
        {"b": writes(b__txt="good\n")},
        [
            item("a", owned, A_GOOD),
            item("c", ["made/"], "true"),
            item("b", "b.txt", B_GOOD),
        ],
    )
    assert report["shipped"] == ["b"]
    assert verdicts(report) == {"a": "refused", "c": "refused", "b": "verified"}
    assert "own.log (.gitignore:1 *.log)" in built(report)["a"]["error"]
    assert "remove them from ownsFiles" in built(report)["a"]["error"]
    assert "made/ (.gitignore:2 made/)" in built(report)["c"]["error"]
    assert not driver.rounds_of("a")
    after = frozen(scene.repo.path)
    assert {k: v for k, v in after.items() if "refs/heads/wave" not in k} == before


@pytest.mark.more
@beside
def test_an_ignored_file_that_an_agents_own_rules_hide_is_refused(folder: Path) -> None:
    scene = Scene(folder, FILES)
    hides = writes(a__txt="good\n", new__log="x\n", __gitignore="*.log\n")
    report, _ = scene.play(
        {"a": hides},
        [item("a", ["a.txt", "new.log", ".gitignore"], A_GOOD, repairCap=0)],
    )
    assert verdicts(report) == {"a": "refused"}
    assert "new.log (.gitignore:1 *.log)" in built(report)["a"]["error"]


@pytest.mark.more
@beside
def test_what_is_ignored_within_a_folder_of_ones_own_is_left_out(folder: Path) -> None:
    scene = Scene(folder, {"src/a.txt": "base\n", ".gitignore": "*.pyc\n"})

    def act(agent: Agent) -> None:
        agent.write({"src/a.txt": "good\n", "src/made.pyc": "compiled\n"})

    report, _ = scene.play({"a": act}, [item("a", ["src/"], "grep -q good src/a.txt")])
    assert report["shipped"] == ["a"]
    assert scene.files_in(report["sha"]) == {"src/a.txt": "M"}


# The user's own hooks


def hooks_of(scene: Scene) -> Path:
    return scene.repo.path / ".git" / "hooks"


TWO = [item("a", "a.txt", A_GOOD), item("b", "b.txt", B_GOOD)]


def both() -> dict[str, Step]:
    return {"a": writes(a__txt="good\n"), "b": writes(b__txt="good\n")}


@pytest.mark.more
@on_scene
def test_a_pre_commit_hook_sees_one_item_staged_and_refuses_that_one(scene: Scene) -> None:
    seen = scene.folder / "seen"
    script = f"""git diff --cached --name-only >> {seen}
        git rev-parse --abbrev-ref HEAD >> {seen}
        git diff --quiet && ! git diff --cached a.txt | grep -q +good && exit 0
        echo 'a.txt is not tidy'; exit 1"""
    hook(hooks_of(scene), "pre-commit", script)
    before = frozen(scene.repo.path)
    report, _ = scene.play(both(), TWO)
    assert (report["shipped"], report["exit_code"]) == (["b"], 1)
    assert verdicts(report)["a"] == "refused"
    error = built(report)["a"]["error"]
    assert error == "the pre-commit hook says no (exit 1): a.txt is not tidy"
    branch = report["branch"]
    # It is asked about the base's own a.txt as well, before the work is blamed.
    runs = ["a.txt", branch, "a.txt", branch, "b.txt", branch]
    assert seen.read_text().splitlines() == runs
    assert scene.files_in(report["sha"]) == {"b.txt": "M"}
    after = frozen(scene.repo.path)
    assert {k: v for k, v in after.items() if "heads/wave" not in k} == before


@pytest.mark.more
@pytest.mark.parametrize(
    ("tidies", "named"),
    [
        ("echo tidy >> a.txt; exit 1", "a.txt"),
        ("echo tidy >> a.txt; echo x > new; git add a.txt new", "a.txt, new"),
        ("echo x > new; git add new", "new"),
        ("git rm -q --cached b.txt", "b.txt"),
    ],
)
@on_scene
def test_what_a_hook_changes_is_not_taken_and_named(scene: Scene, tidies: str, named: str) -> None:
    hook(hooks_of(scene), "pre-commit", tidies)
    report, _ = scene.play({"a": writes(a__txt="good\n")}, TWO[:1])
    assert report["shipped"] == []
    assert f"wants to change {named}, which" in built(report)["a"]["error"]


MISSING = {
    "a program": "no-such-program-at-all --check",
    "behind xargs": "git diff --cached --name-only | xargs no-such-program-at-all; exit $?",
    "an interpreter": "#!/no/such/python",
    "env": "#!/usr/bin/env no-such-python",
    "a script that may not run": "exec ./b.txt",
    "pre-commit": "echo '`pre-commit` not found.  Did you forget to activate your virtualenv?' >&2;"
    " exit 1",
    "an entry of pre-commit": "echo 'mypy....Failed'; echo 'Executable `mypy` not found'; exit 1",
    "npx in husky": "echo 'sh: 1: lint-staged: not found'; echo husky - pre-commit failed; exit 1",
    "husky": "echo 'husky - command not found in PATH=/usr/bin'; exit 1",
}


@pytest.mark.more
@pytest.mark.parametrize("name", MISSING)
@on_scene
def test_a_hook_that_lacks_a_program_is_nobodys_fault(scene: Scene, name: str) -> None:
    script = MISSING[name]
    hook(hooks_of(scene), "pre-commit", script)
    if script.startswith("#!"):
        (hooks_of(scene) / "pre-commit").write_text(f"{script}\n")
    report, driver = scene.play({"a": writes(a__txt="good\n")}, TWO[:1])
    assert (verdicts(report), report["shipped"]) == ({"a": "undecided"}, [])
    assert "[workspace] setup" in built(report)["a"]["error"]
    assert len(driver.requests) == 1


@pytest.mark.more
@pytest.mark.parametrize(
    ("script", "verdict"),
    [
        ("grep -q base a.txt || { echo 'ends badly'; exit 1; }", "refused"),
        ("echo 'module x not found: ends badly'; ! grep -q good a.txt", "refused"),
        (
            "git diff --cached --name-only | grep -q a.txt && { echo no; exit 1; }; exit 0",
            "undecided",
        ),
        ("echo 'No module named ruff'; exit 1", "undecided"),
        ("echo tidy >> a.txt", "undecided"),
        ("git diff --cached --name-only | grep -q new.txt && exit 1; exit 0", "refused"),
    ],
)
@on_scene
def test_what_a_hook_says_of_the_bases_own_files_is_not_held_against_the_work(
    scene: Scene, script: str, verdict: str
) -> None:
    hook(hooks_of(scene), "pre-commit", script)
    agent = writes(a__txt="good\n", new__txt="x\n")
    report, _ = scene.play({"a": agent}, [item("a", ["a.txt", "new.txt"], A_GOOD)])
    assert (verdicts(report), report["shipped"]) == ({"a": verdict}, [])
    of_base = "no to the base's own versions of these files as well: mend them or the hook"
    assert (of_base in built(report)["a"]["error"]) is (verdict == "undecided")


STRICT = """
    awk 'length($0) > 72 { print "line too long: " $0; bad = 1 }
         NR == 2 && $0 != "" { print "no blank line"; bad = 1 }
         /[ \t]$/ { print "white space at the end: " $0; bad = 1 }
         END { exit bad }' "$1"
"""


@pytest.mark.more
@pytest.mark.parametrize("commit", ["per-item", "batch"])
@beside
def test_our_own_text_breaks_no_rule_for_messages(folder: Path, commit: str) -> None:
    scene = Scene(folder, FILES, config=f'[ship]\ncommit = "{commit}"\n')
    hook(hooks_of(scene), "commit-msg", STRICT)
    long = f"{A_GOOD} && test {'x' * 300} = {'x' * 300} " + "&& grep -q good a.txt " * 20
    more = {"title": "Have the sum be right " * 9, "id": "an item with spaces " * 5}
    items = [item("a", "a.txt", long, **more), TWO[1]]
    report, _ = scene.play(both(), items, wave_id="a-wave-with-a-long-name-" * 4)
    assert (report["shipped"], verdicts(report)) == (["a", "b"], {"a": "verified", "b": "verified"})


@pytest.mark.more
@beside
def test_a_secret_that_a_hook_prints_is_not_repeated(folder: Path) -> None:
    scene = Scene(folder, FILES, environ={"MY_API_KEY": "something-secret"})
    hook(hooks_of(scene), "pre-commit", "echo something-secret; exit 1")
    report, _ = scene.play({"a": writes(a__txt="good\n")}, TWO[:1])
    assert "[MY_API_KEY]" in built(report)["a"]["error"]
    assert "something-secret" not in str(report) + scene.said.getvalue()


@pytest.mark.more
@beside
def test_a_hook_that_hangs_is_ended_and_named_and_costs_no_attempt(folder: Path) -> None:
    limit_s = f"{patient(0.5):g}"
    scene = Scene(folder, FILES, config=f"[ship]\nhook_timeout_s = {limit_s}\n")
    hangs = "git diff --cached --name-only | grep -q b.txt || sleep 60"
    hook(hooks_of(scene), "pre-commit", hangs)
    report, _ = scene.play(both(), TWO)
    assert (report["shipped"], verdicts(report)["a"]) == (["b"], "undecided")
    assert f"pre-commit hook did not end within {limit_s} s" in built(report)["a"]["error"]


@pytest.mark.more
@on_scene
def test_a_commit_msg_hook_may_refuse_or_add_to_a_message(scene: Scene) -> None:
    script = 'grep -q "Item-Slug: a" "$1" && { echo no ticket >&2; exit 1; }; echo "Id: 7" >> "$1"'
    hook(hooks_of(scene), "commit-msg", script)
    report, _ = scene.play(both(), TWO)
    assert (report["shipped"], verdicts(report)["a"]) == (["b"], "undecided")
    error = built(report)["a"]["error"]
    assert "commit-msg hook says no (exit 1): no ticket; the message is the item's title" in error
    trailers = scene.trailers(report["sha"])
    assert (trailers["Id"], trailers["Item-Slug"]) == ("7", "b")


@pytest.mark.more
@on_scene
def test_a_commit_msg_hook_may_not_take_away_what_commits_are_found_by(scene: Scene) -> None:
    hook(hooks_of(scene), "commit-msg", 'echo "feat: something" > "$1"')
    report, _ = scene.play({"a": writes(a__txt="good\n")}, TWO[:1])
    assert (report["shipped"], verdicts(report)) == ([], {"a": "undecided"})
    assert "takes away trailers" in built(report)["a"]["error"]


@pytest.mark.more
@pytest.mark.parametrize("mode", ["branch", "current"])
@on_scene
def test_a_pre_push_hook_is_told_what_git_would_tell_and_may_refuse_it_all(
    scene: Scene, mode: str
) -> None:
    seen = scene.folder / "seen"
    hook(hooks_of(scene), "pre-push", f'echo "$1 $2" > {seen}; cat >> {seen}; echo not now; exit 3')
    git = {"expectTopLevel": str(scene.repo.path), "mode": mode}
    main = scene.repo.git("rev-parse", "main")
    report, _ = scene.play(both(), TWO, git=git)
    assert (report["shipped"], report["exit_code"]) == ([], 1)
    assert report["shipped_repos"][0]["error"] == "hook_refused"
    told = "the pre-push hook says no (exit 3): not now"
    assert report["shipped_repos"][0]["error_detail"] == told
    assert built(report)["a"]["ship_error"] == told
    assert scene.remote is not None
    assert scene.remote.git("for-each-ref", "--format=%(refname)") == "refs/heads/main"
    first, line = seen.read_text().splitlines()
    assert first == f"origin {scene.remote.path}"
    ref, tip, there, at = line.split()
    assert ref == there
    assert ref.startswith("refs/heads/main" if mode == "current" else "refs/heads/wave/")
    assert at == (main if mode == "current" else "0" * 40)
    assert tip != main
    hook(hooks_of(scene), "pre-push", "exit 0")
    again, _ = scene.play(both(), TWO, git=git, wave_id="w2")
    assert again["shipped"] == ["a", "b"]


@pytest.mark.more
@on_scene
def test_a_hook_can_compare_with_the_remote(scene: Scene) -> None:
    seen = scene.folder / "seen"
    script = f"git remote get-url origin > {seen}; git diff --name-only origin/main HEAD >> {seen}"
    hook(hooks_of(scene), "pre-push", script)
    report, _ = scene.play(both(), TWO)
    assert (report["shipped"], report["shipped_repos"][0]["pushed"]) == (["a", "b"], True)
    assert scene.remote is not None
    assert seen.read_text().splitlines() == [str(scene.remote.path), "a.txt", "b.txt"]


@pytest.mark.more
@beside
def test_hooks_are_those_of_the_start_and_never_an_agents_version(folder: Path) -> None:
    ours = "#!/bin/sh\necho the one of the base; exit 1\n"
    scene = Scene(folder, {**FILES, "tools/pre-commit": ours})
    (scene.repo.path / "tools" / "pre-commit").chmod(0o755)
    scene.repo.commit({}, "may be run")
    scene.repo.git("config", "core.hooksPath", "tools")
    scene.repo.write({"tools/pre-commit": "#!/bin/sh\nexit 0\n"})
    report, _ = scene.play(
        {"a": _writes_a_hook},
        [item("a", ["a.txt", "tools/pre-commit"], A_GOOD)],
    )
    assert report["shipped"] == []
    assert "the one of the base" in built(report)["a"]["error"]


def _writes_a_hook(agent: Agent) -> None:
    agent.write({"a.txt": "good\n", "tools/pre-commit": "#!/bin/sh\nexit 0\n"})


@pytest.mark.more
@pytest.mark.parametrize("hooks", ["run", "off"])
@beside
def test_a_folder_of_hooks_that_does_not_exist_is_told_once(folder: Path, hooks: str) -> None:
    scene = Scene(folder, FILES, config=f'[ship]\nhooks = "{hooks}"\n')
    scene.repo.git("config", "core.hooksPath", ".husky/_")
    report, _ = scene.play(both(), TWO)
    assert report["shipped"] == ["a", "b"]
    assert scene.said.getvalue().count(".husky/_, which does not exist") == (hooks == "run")


@pytest.mark.more
@on_scene
def test_an_agent_that_finds_the_copies_of_the_hooks_stops_the_ship(scene: Scene) -> None:
    hook(hooks_of(scene), "pre-commit", "exit 1")

    def act(agent: Agent) -> None:
        agent.write({"a.txt": "good\n"})
        hook(agent.folder.parents[1] / "hooks" / "hooks", "pre-commit", "exit 0")

    report, _ = scene.play({"a": act}, TWO[:1])
    assert report["shipped"] == []
    assert "copies of your hooks" in report["shipped_repos"][0]["error_detail"]


@pytest.mark.more
@beside
def test_a_linked_hook_and_one_without_a_first_line_run(folder: Path) -> None:
    scene = Scene(folder, {**FILES, "tools/check": "echo of the base; exit 1\n"})
    (scene.repo.path / "tools" / "check").chmod(0o755)
    scene.repo.commit({}, "may be run")
    hooks_of(scene).mkdir(exist_ok=True)
    (hooks_of(scene) / "pre-commit").symlink_to("../../tools/check")
    scene.repo.write({"tools/check": "exit 0\n"})
    report, _ = scene.play({"a": writes(a__txt="good\n")}, TWO[:1])
    assert "of the base" in built(report)["a"]["error"]


@pytest.mark.more
@beside
def test_a_hook_of_a_folder_that_is_not_tracked_reaches_what_is(folder: Path) -> None:
    scene = Scene(folder, {**FILES, ".husky/pre-commit": "echo from husky; exit 1\n"})
    starts = '. "$(dirname "$0")/../pre-commit"'
    hook(scene.repo.path / ".husky" / "_", "pre-commit", starts)
    scene.repo.git("config", "core.hooksPath", ".husky/_")
    report, _ = scene.play({"a": writes(a__txt="good\n")}, TWO[:1])
    assert "from husky" in built(report)["a"]["error"]


@pytest.mark.more
@beside
def test_hooks_can_be_switched_off_and_one_that_may_not_be_run_is_none(folder: Path) -> None:
    scene = Scene(folder, FILES, config='[ship]\nhooks = "off"\n')
    hook(hooks_of(scene), "pre-commit", "exit 1")
    report, _ = scene.play(both(), TWO[:1])
    assert report["shipped"] == ["a"]
    other = Scene(folder / "other", FILES)
    hook(hooks_of(other), "pre-commit", "exit 1")
    (hooks_of(other) / "pre-commit").chmod(0o644)
    report, _ = other.play(both(), TWO[:1])
    assert report["shipped"] == ["a"]


@pytest.mark.more
@beside
def test_a_hook_gets_the_variables_that_tests_get_and_no_more(folder: Path) -> None:
    scene = Scene(folder, FILES, environ={"MY_API_KEY": "something-secret", "LANG": "C"})
    seen = folder / "seen"
    hook(hooks_of(scene), "pre-commit", f"env > {seen}")
    report, _ = scene.play(both(), TWO[:1])
    assert report["shipped"] == ["a"]
    told = seen.read_text()
    assert "something-secret" not in told
    assert "GIT_AUTHOR_NAME=Tidegate" in told
