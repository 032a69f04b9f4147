"""Bad input is told in one sentence and with its exit code, and nothing at all is changed."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import LOOP, ROOT, SCHEDULER, Project, Ran, environment, git, item, run
from tests.support.programs import tree_hash as hash_of

BAD_INPUT, BY_POLICY, CANNOT_RUN = 2, 3, 4
NOBODY = 65534
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX files")


@dataclass(frozen=True)
class Case:
    """A mistake: how it is made, what is told, and the flags it takes."""

    make: Callable[[Project], Any]
    tells: str
    code: int = BAD_INPUT
    flags: tuple[str, ...] = field(default=())


def rewrite_config(text: str) -> Callable[[Project], Any]:
    return lambda project: project.config.write_text(text, encoding="utf-8")


def tracked(*items: dict[str, Any]) -> Callable[[Project], Any]:
    return lambda project: project.track(*items)


def written(text: str) -> Callable[[Project], Any]:
    """The tracker and the manifest say just this."""

    def write(project: Project) -> None:
        project.tracker.write_text(text, encoding="utf-8")
        (project.home / "manifest.json").write_text(text, encoding="utf-8")

    return write


def nothing(project: Project) -> None:
    """The mistake is in the flags."""


def unborn(project: Project) -> None:
    shutil.rmtree(project.top)
    project.top.mkdir()
    git(project.top, "init", "-q")


def bare(project: Project) -> None:
    shutil.rmtree(project.top)
    git(project.home, "init", "-q", "--bare", "repo")


def no_repository(project: Project) -> None:
    shutil.rmtree(project.top / ".git")


def gone(project: Project) -> None:
    for place in (project.tracker, manifest_of(project)):
        place.unlink()


def a_folder_instead(project: Project) -> None:
    gone(project)
    project.tracker.mkdir()
    manifest_of(project).mkdir()


def refused(project: Project, ran: Callable[[], Ran]) -> Ran:
    """Run and see that nothing was changed, and that stdout is one document."""
    before = hash_of(project.home)
    done = ran()
    assert hash_of(project.home) == before
    assert not project.state.exists()
    assert "Traceback" not in done.err
    if done.out:
        assert done.report
    return done


BOTH = {
    "an unknown key": Case(
        rewrite_config("[backend]\ncomand = ['x']\n"), "did you mean backend.command"
    ),
    "an unknown section": Case(rewrite_config("[bakend]\nname = 'x'\n"), "did you mean backend"),
    "bad TOML": Case(rewrite_config("[backend\n"), "is not valid TOML"),
    "a wrong type": Case(rewrite_config("[verify]\ntimeout_s = 'soon'\n"), "verify.timeout_s"),
    "tests that are known to be red, and no run on the base": Case(
        rewrite_config("[verify]\nred_first = 'off'\nknown_red = ['t.py::*']\n"),
        "verify.known_red needs runs on the base",
    ),
    "a ceiling in words": Case(
        rewrite_config("[limits]\nmax_wave_tokens = '5 million'\n"), "limits.max_wave_tokens"
    ),
    "no such config": Case(nothing, "none.toml does not exist", flags=("--config", "none.toml")),
    "an unknown backend": Case(nothing, "did you mean 'claude'", flags=("--driver", "cloude")),
    "no key": Case(
        rewrite_config("[backend]\nname = 'codex'\n[review]\nmode='off'\n"),
        "OPENAI_API_KEY is not set",
        CANNOT_RUN,
    ),
    "no address": Case(
        rewrite_config("[backend]\nname = 'openai-compatible'\nmodel = 'm'\n"),
        "[backend] base_url",
    ),
    "an address for nobody": Case(
        rewrite_config(
            "[backend]\nname = 'openai-compatible'\nmodel = 'm'\n"
            "base_url = 'http://10.0.0.5/v1'\n[review]\nmode='off'\n"
        ),
        "[backend] base_url cannot be used",
    ),
    "a password in an address": Case(
        rewrite_config(
            "[backend]\nname = 'codex-cli'\nmodel = 'm'\nbase_url = 'https://me:word@a.example'\n"
        ),
        "[backend] base_url cannot be used: it holds a user name or password",
    ),
    "an unknown reviewer": Case(
        rewrite_config("[review.backend]\nname = 'cloude'\n"),
        "[review.backend] name: unknown backend 'cloude'; did you mean 'claude'",
    ),
    "a reviewer at an address for nobody": Case(
        rewrite_config(
            "[review.backend]\nname = 'openai-compatible'\nmodel = 'm'\n"
            "base_url = 'http://10.0.0.5/v1'\n"
        ),
        "[review.backend] base_url cannot be used",
    ),
    "a price in words": Case(
        rewrite_config("[prices]\nm = { input = 'little', output = 1 }\n"), "prices must be"
    ),
    "no agent command": Case(rewrite_config("[backend]\nname = 'command'\n"), "[backend] command"),
    "no such recording": Case(
        rewrite_config("[backend]\nname = 'replay'\nrecording = 'gone.jsonl'\n"),
        "cannot read the recording",
    ),
    "claude missing": Case(
        rewrite_config("[backend]\ncommand = ['claude-that-is-not-here']\n[review]\nmode='off'\n"),
        "'claude-that-is-not-here', named in [backend] command, was not found",
        CANNOT_RUN,
    ),
    "agent missing": Case(
        rewrite_config("[backend]\nname = 'command'\ncommand = ['no-such-agent', '-x']\n"),
        "the agent program 'no-such-agent' was not found",
        CANNOT_RUN,
    ),
    "no workers": Case(nothing, "limits.max_workers", flags=("--max-workers", "0")),
    "workers in words": Case(nothing, "--max-workers", flags=("--max-workers", "many")),
    "an unknown flag": Case(nothing, "--no-such-flag", flags=("--no-such-flag",)),
    "a missing repository": Case(nothing, "is not a folder", flags=("--repo", "nowhere")),
    "no repository": Case(no_repository, "is not inside a git repository"),
    "a bare repository": Case(bare, "bare repository"),
    "no commit yet": Case(unborn, "has no commit yet"),
    "output into a missing folder": Case(nothing, "--output", flags=("--output", "no/such/r.json")),
    "output onto a folder": Case(nothing, "is a folder", flags=("--output", "repo")),
    "output over the recording": Case(
        nothing, "is the file of --output", flags=("--output", "x", "--record", "./x")
    ),
    "a recording over the configuration": Case(
        nothing, "is the file of --config", flags=("--record", "config.toml")
    ),
    "a recording into a missing folder": Case(nothing, "--record", flags=("--record", "no/r")),
    "a recording over other data": Case(
        nothing, "this is not a recording", flags=("--record", "repo/README.md")
    ),
    "the repository as state folder": Case(
        nothing, "is the repository itself", flags=("--state-dir", "repo")
    ),
}

DOCUMENTS = {
    "broken JSON": Case(written('{"items": ['), "is not usable JSON"),
    "no UTF-8": Case(
        lambda p: [
            place.write_bytes(b'{"items": ["\xff"]}') for place in (p.tracker, manifest_of(p))
        ],
        "is not usable JSON",
    ),
    "items that are no list": Case(written('{"items": {}}'), "items"),
    "a number": Case(written("5"), "items"),
    "a folder in its place": Case(a_folder_instead, "is not a regular file"),
    "nothing there": Case(gone, "does not exist"),
}


def manifest_of(project: Project) -> Path:
    return project.home / "manifest.json"


@pytest.fixture
def sound(project: Project) -> Project:
    """A project with a tracker and a manifest that could be run."""
    project.track(item("a"))
    project.manifest(item("a"))
    return project


# What both programs do with the same lines is tried with one of them, in turn.
@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("program", "name"), [(("scheduler", "loop")[n % 2], name) for n, name in enumerate(BOTH)]
)
def test_a_mistake_is_told_in_one_sentence_and_changes_nothing(
    sound: Project, program: str, name: str
) -> None:
    check_case(sound, program, BOTH[name])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("program", ["scheduler", "loop"])
def test_a_tracker_or_manifest_that_cannot_be_read_is_no_empty_one(
    sound: Project, program: str, name: str
) -> None:
    check_case(sound, program, DOCUMENTS[name])


@pytest.mark.parametrize("flag", ["--output", "--record"])
def test_what_a_wave_is_read_from_is_never_written_over(sound: Project, flag: str) -> None:
    done = refused(sound, lambda: sound.schedule(flag, sound.tracker.name))
    assert (done.code, "is the file of --tracker" in done.said()) == (BAD_INPUT, True)
    manifest = manifest_of(sound)
    done = refused(sound, lambda: sound.loop("--manifest", manifest, flag, f"./{manifest.name}"))
    assert (done.code, "is the file of --manifest" in done.said()) == (BAD_INPUT, True)


def check_case(sound: Project, program: str, case: Case) -> None:
    case.make(sound)

    def ran() -> Ran:
        if program == "scheduler":
            return sound.schedule(*case.flags)
        return sound.loop("--manifest", manifest_of(sound), *case.flags)

    done = refused(sound, ran)
    assert case.tells in done.said()
    assert done.code == case.code
    if done.out:
        assert done.report["error"] == done.said()
        assert done.report.get("success") is not True


ITEMS: dict[str, tuple[Sequence[dict[str, Any]], str]] = {
    "a repo with a name that is too long": ([item("a", repo=f"/{'a' * 300}")], "existing folder"),
    "a folder with a name that is too long": ([item("a", workDir="a" * 300)], "longer than 255"),
    "a slug twice": ([item("a"), item("b", slug="a")], "slug 'a'"),
    "a slug twice but for case": ([item("a"), item("b", slug="A")], "slug"),
    "an id twice": ([item("a"), item("b", id="A")], "id 'A'"),
    "no testCmd": ([item("a", testCmd=None)], "testCmd"),
    "an empty testCmd": ([item("a", testCmd=" ")], "testCmd"),
    "an empty prompt": ([item("a", prompt="  ")], "prompt"),
    "no slug": ([item("a", slug="")], "slug"),
    "no files": ([item("a", ownsFiles=[])], "ownsFiles"),
    "files that are no texts": ([item("a", ownsFiles=[5])], "ownsFiles"),
    "an absolute file": ([item("a", ownsFiles=["/etc/passwd"])], "/etc/passwd"),
    "a file on a drive": ([item("a", ownsFiles=["C:\\x"])], "C:"),
    "a file at home": ([item("a", ownsFiles=["~/x"])], "~/x"),
    "a file above": ([item("a", ownsFiles=["sub/../../x"])], ".."),
    "a file in .git": ([item("a", ownsFiles=[".git/hooks/pre-commit"])], ".git"),
    "a file in .GIT": ([item("a", ownsFiles=["sub/.GIT/config"])], ".GIT"),
    "a file in git~1": ([item("a", ownsFiles=["GIT~1/config"])], "GIT~1"),
}


@pytest.mark.more
@pytest.mark.parametrize("name", ITEMS)
@pytest.mark.parametrize("program", ["scheduler", "loop"])
def test_an_item_that_cannot_be_built_is_refused(project: Project, name: str, program: str) -> None:
    items, tells = ITEMS[name]
    check_items(project, program, items, tells)


def check_items(
    project: Project, program: str, items: Sequence[dict[str, Any]], tells: str
) -> None:
    project.track(*items)
    project.manifest(*items)
    check_case(project, program, Case(nothing, tells))


@pytest.mark.more
@posix
def test_a_repo_that_is_a_loop_of_links_leaves_out_its_item_alone(project: Project) -> None:
    (project.home / "loop").symlink_to("loop")
    project.track(item("a"), item("b", repo=str(project.home / "loop")))
    done = project.schedule()
    assert done.code == 0
    assert "loop is not the absolute path of an existing folder" in done.err
    assert "shipped 1 of 1 item" in done.err


LONG = "a" * 300
LOST = (
    ("doctor.py", "--state-dir", "loop"),
    ("init.py", "--state-dir", "loop"),
    ("heartbeat.py", "check", "--state-dir", LONG),
    ("stall_check.py", "--transcripts-root", LONG),
    ("stall_check.py", "--transcripts-root", "loop"),
    ("wave_resume.py", "--journal", LONG, "--workdir", "."),
    ("secret_scan.py", LONG),
    ("wave_preflight.py", "--tracker", "long.json"),
)


@pytest.mark.sampled(2)
@posix
@pytest.mark.parametrize("words", LOST, ids=" ".join)
def test_a_path_that_no_system_takes_is_told_in_one_sentence(
    sound: Project, words: tuple[str, ...]
) -> None:
    (sound.top / "loop").symlink_to("loop")
    items = [{"id": "a", "status": "todo", "workDir": LONG, "ownsFiles": ["x"]}]
    (sound.top / "long.json").write_text(json.dumps(items), encoding="utf-8")
    done = run(ROOT / "tools" / words[0], *words[1:], cwd=sound.top, env=environment(sound.home))
    assert done.code in (0, BAD_INPUT, CANNOT_RUN), done.err
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) <= 1


def test_every_problem_of_a_manifest_is_told_at_once(project: Project) -> None:
    manifest = project.manifest(
        item("a", prompt=""), item("b", testCmd=""), item("c", ownsFiles=[])
    )
    done = refused(project, lambda: project.loop("--manifest", manifest))
    assert done.code == BAD_INPUT
    assert all(f"item {number}" in done.said() for number in (1, 2, 3))
    assert len(done.report["problems"]) == 3


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        ({"ownsFiles": ["x.txt"]}, {"ownsFiles": ["./x.txt"]}),
        ({"ownsFiles": ["x.txt"]}, {"ownsFiles": ["X.TXT"]}),
        ({"ownsFiles": ["sub/"]}, {"ownsFiles": ["sub/x.txt"]}),
        ({"ownsFiles": ["x.txt"], "workDir": "sub"}, {"ownsFiles": ["sub\\x.txt"]}),
    ],
    ids=["spelling", "case", "folder", "work folder"],
)
def test_a_manifest_in_which_two_items_own_a_file_is_refused_whole(
    project: Project, mine: dict[str, Any], theirs: dict[str, Any]
) -> None:
    manifest = project.manifest(item("a", **mine), item("b", **theirs))
    done = refused(project, lambda: project.loop("--manifest", manifest))
    assert done.code == BAD_INPUT
    assert done.report["abort_reason"] == "ownership_overlap"
    assert done.report["conflicts"][0]["items"] == ["a", "b"]
    assert done.report["built"] == []
    assert "'a'" in done.said()
    assert "'b'" in done.said()


@pytest.mark.more
@posix
@pytest.mark.parametrize("program", ["scheduler", "loop"])
def test_a_file_behind_a_link_out_of_the_repository_is_refused(
    project: Project, program: str
) -> None:
    (project.top / "out").symlink_to(project.home)
    check_items(project, program, [item("a", ownsFiles=["out/x.txt"])], "out/x.txt")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("flags", "tells"),
    [
        ((), "--manifest is missing"),
        (("--manifest", ""), "--manifest"),
        (("--manifest", "gone.json"), "gone.json does not exist"),
    ],
)
def test_the_loop_needs_a_manifest(project: Project, flags: tuple[str, ...], tells: str) -> None:
    done = refused(project, lambda: project.loop(*flags))
    assert tells in done.said()
    assert done.code == BAD_INPUT


def test_the_loop_refuses_an_empty_wave(project: Project) -> None:
    manifest = project.manifest()
    done = refused(project, lambda: project.loop("--manifest", manifest))
    assert done.code == BAD_INPUT
    assert done.report["integration"] == {"green": False}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("count", ["0", "-1", "x"])
def test_the_scheduler_needs_room_for_an_item(sound: Project, count: str) -> None:
    done = refused(sound, lambda: sound.schedule("--max-items", count))
    assert "--max-items" in done.said()
    assert done.code == BAD_INPUT


@pytest.mark.parametrize("program", ["scheduler", "loop"])
def test_without_git_nothing_can_run(sound: Project, program: str) -> None:
    env = environment(sound.home, PATH=str(sound.home))

    def ran() -> Ran:
        if program == "scheduler":
            return sound.schedule(env=env)
        return sound.loop("--manifest", manifest_of(sound), env=env)

    done = refused(sound, ran)
    assert "git was not found on PATH" in done.said()
    assert done.code == CANNOT_RUN


def test_git_outside_a_repository_is_refused(sound: Project) -> None:
    flags = ("--git", "--manifest", manifest_of(sound), "--config", sound.config)
    done = refused(sound, lambda: run(LOOP, *flags, cwd=sound.home))
    assert "no repository was given" in done.said()
    assert done.code == BAD_INPUT


def test_halted_is_not_run(sound: Project) -> None:
    sound.state.mkdir()
    (sound.state / ".HALT").write_text('{"reason": "wait for me"}', encoding="utf-8")
    before = hash_of(sound.home)
    for done, key in (
        (sound.schedule(), "halt_reason"),
        (sound.loop("--manifest", manifest_of(sound)), "error"),
    ):
        assert done.code == BY_POLICY
        assert "wait for me" in done.report[key]
        assert "wait for me" in done.said()
        assert hash_of(sound.home) == before
    assert sound.schedule().report["phase"] == "halt"


def test_a_reached_ceiling_is_not_run(sound: Project) -> None:
    sound.configure("[limits]\nmax_wave_tokens = 0\n")
    done = refused(sound, sound.schedule)
    assert done.code == BY_POLICY
    assert done.report["phase"] == "ceiling"
    assert "ceiling" in done.report["ceiling_reason"]
    assert "ceiling" in done.said()


def test_a_gate_that_cannot_be_asked_is_closed(sound: Project) -> None:
    sound.configure("[limits]\nmax_daily_tokens = 100\n")
    (sound.state / "ledger" / "OUTCOMES-LEDGER.md").mkdir(parents=True)
    before = hash_of(sound.home)
    done = sound.schedule()
    assert (done.code, done.report["phase"]) == (BY_POLICY, "gate_unavailable")
    assert "cannot be checked" in done.said()
    assert hash_of(sound.home) == before


@pytest.mark.more
def test_the_ceiling_is_that_of_the_run_and_not_of_the_current_folder(sound: Project) -> None:
    (sound.home / "tidegate.toml").write_text("[limits]\nmax_wave_tokens = 0\n", encoding="utf-8")
    assert sound.schedule().code == 0


@pytest.fixture
def elsewhere(template: Path) -> Iterator[Project]:
    """A sound project in a folder that other users can reach, which those of pytest are not."""
    with tempfile.TemporaryDirectory(prefix="tidegate-test-") as folder:
        home = Path(folder).resolve()
        home.chmod(0o755)
        project = Project(home, template)
        project.track(item("a"))
        project.manifest(item("a"))
        project.configure(command=("/bin/sh", "-c", "true"))
        yield project


def ordinary_user(project: Project) -> Sequence[str]:
    """How to run as somebody without root's rights; () for whoever has none to begin with. The
    repository is theirs then, for git trusts no other."""
    if not hasattr(os, "geteuid"):
        pytest.skip("needs POSIX users")
    if os.geteuid() != 0:
        return ()
    if shutil.which("setpriv") is None:
        pytest.skip("root can write anywhere, and there is no setpriv to be somebody else")
    prefix = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    for place in (project.top, *project.top.rglob("*"), project.home / "home"):
        os.chown(place, NOBODY, NOBODY)
    probe = run(SCHEDULER, "--help", cwd=project.home, prefix=prefix)
    if probe.code != 0:
        pytest.skip("another user cannot read this checkout or run this Python")
    return prefix


@pytest.mark.more
@posix
def test_a_state_folder_that_cannot_be_written_stops_before_anything_runs(
    elsewhere: Project,
) -> None:
    prefix = ordinary_user(elsewhere)
    elsewhere.state.mkdir(mode=0o555)
    before = hash_of(elsewhere.home)
    for done in (
        elsewhere.schedule(prefix=prefix),
        elsewhere.loop("--manifest", manifest_of(elsewhere), prefix=prefix),
    ):
        assert done.code == CANNOT_RUN, done.err
        assert str(elsewhere.state) in done.said()
        assert hash_of(elsewhere.home) == before


@pytest.mark.more
@posix
@pytest.mark.parametrize("flag", ["--record", "--output"])
def test_a_place_that_may_not_be_written_is_told_before_anything_runs(
    elsewhere: Project, flag: str
) -> None:
    prefix = ordinary_user(elsewhere)
    closed = elsewhere.home / "closed"
    closed.mkdir(mode=0o555)
    done = refused(elsewhere, lambda: elsewhere.schedule(flag, closed / "file", prefix=prefix))
    assert done.code == CANNOT_RUN
    assert flag in done.said()


@pytest.mark.more
@posix
def test_what_lies_in_a_folder_that_may_not_be_read_is_told_and_never_clean(
    sound: Project,
) -> None:
    closed = sound.top / "closed"
    closed.mkdir()
    (closed / "key.txt").write_text("x\n", encoding="utf-8")
    sound.track(item("a"), item("b", ownsFiles=["closed/key.txt"]))
    prefix: Sequence[str] = ()
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root can read anything, and there is no setpriv to give that up")
        prefix = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    closed.chmod(0)
    try:
        done = sound.schedule(prefix=prefix)
        assert done.code == 0, done.err
        assert "closed/key.txt cannot be looked at: Permission denied" in done.err
        for name in (".", "closed", "closed/key.txt"):
            scan = ROOT / "tools" / "secret_scan.py"
            done = run(scan, name, cwd=sound.top, env=environment(sound.home), prefix=prefix)
            assert (done.code, "UNREADABLE: 1 of" in done.out) == (BAD_INPUT, True), done.err
    finally:
        closed.chmod(0o700)


def test_what_is_told_cannot_act_on_a_terminal(sound: Project) -> None:
    done = refused(sound, lambda: sound.schedule("--driver", "\x1b[31mred\nline"))
    assert done.said().isprintable()
    assert json.loads(done.out)["exit_code"] == BAD_INPUT
