"""The command `tidegate`: its help, its guesses, its documents and its completions."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import driver
from driver import tidegate
from driver.cli.completion import candidates
from driver.cli.words import WORDS, groups
from tests.support.interpreter import PYTHON
from tests.support.programs import ROOT, Ran, a_project, call, item, run, run_here

pytestmark = pytest.mark.in_walls

PROGRAM = ROOT / "driver" / "tidegate.py"
MODULE = ("-m", "driver")
# Words that answer at once in an empty folder, with an argument that makes them do so.
QUICK = {
    "help": (),
    "version": (),
    "completion": ("bash",),
    "halt": ("--status",),
    "ledger": ("summary",),
    "templates": ("validate",),
    "preflight": (),
    "secrets": ("README",),
}


def typed(*words: str) -> Ran:
    return call(tidegate.main, *words)


def document(done: Ran) -> dict[str, object]:
    found = json.loads(done.out)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("words", [(), ("help",), ("--help",), ("-h",)])
def test_the_help_names_every_word_and_the_first_steps(words: tuple[str, ...]) -> None:
    done = typed(*words)
    assert (done.code, done.err) == (0, "")
    named = re.findall(r"^  (\S+)", done.out, re.MULTILINE)
    assert set(WORDS) == set(named)
    assert "tidegate run --execute --demo" in done.out


def test_help_for_a_word_shows_flags_and_examples() -> None:
    for words in (("help", "halt"), ("halt", "--help")):
        done = typed(*words)
        assert done.code == 0
        assert done.out.startswith("usage: tidegate halt ")
        assert "examples:\n    tidegate halt set 'the tests are down'\n" in done.out


@pytest.mark.sampled(19)
@pytest.mark.parametrize("word", WORDS)
def test_every_example_is_a_command_line_that_its_parser_takes(word: str) -> None:
    for example in WORDS[word][3]:
        words = shlex.split(example.partition(" > ")[0])
        assert words[0] == word
        assert set(words[1:]) & {"--help"} == set()
        flags = [one for one in words[1:] if one.startswith("--")]
        offered = set(candidates([*words[:2], "--"]) if len(words) > 1 else ())
        assert set(flags) <= offered | set(candidates([word, "--"])), example


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["statsu"], "did you mean status?"),
        (["help", "halr"], "did you mean halt?"),
        (["halt", "--sttus"], "did you mean --status?"),
        (["state", "item"], "did you mean items?"),
        (["run", "--exceute"], "did you mean --execute?"),
        (["ledger", "sumary"], "did you mean summary?"),
        (["halt", "clear"], "did you mean --clear?"),
    ],
)
def test_what_is_nearly_right_is_guessed_with_exit_2(words: list[str], near: str) -> None:
    done = typed(*words)
    assert (done.code, done.out) == (2, "")
    assert near in done.err
    assert done.err.count("\n") == 1
    told = typed(*words, "--json")
    assert told.code == 2
    assert document(told)["schema"] == "tidegate/error/1"
    assert near in str(document(told)["error"])


def test_two_dashes_are_a_value_like_others(tmp_path: Path) -> None:
    words = ("add.py", "--owns=x", "--test=true", "--prompt-file=--", f"--state-dir={tmp_path}")
    ran = run_here(ROOT / "tools" / words[0], *words[1:], "Title", cwd=tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith(": -- does not exist\n")


def test_a_flag_like_no_other_is_not_guessed() -> None:
    for words in (["run", "--bogus"], ["gc", "--foo"]):
        assert "did you mean" not in typed(*words).err


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (["report", "--html"], "argument --html: expected one argument: FILE"),
        (["intake"], "required: kind (github|markdown|csv), PATH"),
        (["completion"], "required: shell (bash|zsh|fish);"),
    ],
)
def test_a_missing_value_is_named(words: list[str], missing: str) -> None:
    done = typed(*words)
    assert (done.code, missing in done.err) == (2, True)


@pytest.mark.parametrize(
    "words",
    [["halt", "--stat"], ["ledger", "append-wave", "--rep", "x"], ["run", "--exec"]],
)
def test_no_flag_is_abbreviated(words: list[str]) -> None:
    assert typed(*words).code == 2


@pytest.mark.parametrize("word", QUICK)
def test_every_document_names_its_schema(word: str, tmp_path: Path) -> None:
    (tmp_path / "README").write_text("nothing\n", encoding="utf-8")
    for words in ([word, *QUICK[word], "--json"], ["--json", word, *QUICK[word]]):
        done = run_here(PROGRAM, *words, cwd=tmp_path)
        assert str(document(done)["schema"]).startswith("tidegate/"), done


def test_a_list_becomes_a_document_of_its_own_for_the_command(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    listed = run_here(PROGRAM, "recover", "list", "--json", cwd=tmp_path)
    assert document(listed) == {"schema": "tidegate/recover/list/1", "entries": []}
    file = run_here(ROOT / "tools" / "recover.py", "list", "--json", cwd=tmp_path)
    assert json.loads(file.out) == []


def test_an_error_is_a_document_too(tmp_path: Path) -> None:
    done = run_here(PROGRAM, "gc", "--state-dir", "none", "--json", cwd=tmp_path)
    assert done.code == document(done)["exit_code"] == 2
    assert str(document(done)["error"]) in done.err
    traced = run_here(PROGRAM, "gc", "--state-dir", "none", "-v", cwd=tmp_path)
    assert "Traceback" in traced.err
    assert "Traceback" not in done.err


def test_usage_names_what_was_typed(tmp_path: Path) -> None:
    python = Path(sys.executable).name
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    for program, shown in ((MODULE, "-m driver halt"), (PROGRAM, f"{PROGRAM} halt")):
        done = run(program, "halt", "--help", cwd=tmp_path, env=env)
        assert done.out.partition("[-h]")[0].split() == ["usage:", python, *shown.split()]
    done = run(ROOT / "tools" / "halt.py", "--help", cwd=tmp_path)
    assert done.out.partition("[-h]")[0].split() == [
        "usage:",
        python,
        str(PROGRAM.parents[1] / "tools/halt.py"),
    ]


def test_colors_are_asked_for_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert "\x1b[" not in typed("help").out
    assert "\x1b[" in typed("help", "--color", "always").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in typed("help").out
    assert "\x1b[" not in typed("help", "--color=never").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in typed("help").out
    assert "\x1b[" in typed("help", "--color", "always").out


def test_the_version_is_that_of_the_package() -> None:
    told = f'version = "{driver.__version__}"'
    assert told in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert typed("version").out.startswith(f"tidegate {driver.__version__} (Python ")
    assert typed("--version").out == typed("-V").out == typed("version").out
    assert document(typed("version", "--json"))["version"] == driver.__version__


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ([""], {"run", "status", "help"}),
        (["st"], {"status", "state"}),
        (["halt", "--s"], {"--status", "--state-dir"}),
        (["state", ""], {"items", "sync", "--json"}),
        (["state", "events", "--a"], {"--after"}),
        (["run", "--color", ""], {"auto", "always", "never"}),
        (["completion", "z"], {"zsh"}),
        (["help", "comp"], {"completion"}),
        (["nosuch", ""], set()),
    ],
)
def test_completions_come_from_the_parsers(words: list[str], offered: set[str]) -> None:
    found = set(candidates(words))
    assert offered <= found if words[-1] in ("",) else offered == found


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_words_and_flags(tmp_path: Path) -> None:
    command = tmp_path / "tidegate"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -S {PROGRAM} "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    script = typed("completion", "bash").out + (
        'COMP_WORDS=(tidegate halt --st); COMP_CWORD=2; _tidegate; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", script],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == {"--status", "--state-dir"}


def test_every_word_stands_in_one_group() -> None:
    names = [word for words in groups().values() for word in words]
    assert len(names) == len(set(names))


def test_plan_writes_nothing_and_names_what_a_run_would_take(tmp_path: Path) -> None:
    with a_project(tmp_path) as project:
        project.track(item("a"), item("b", ownsFiles=["a.txt"]))
        words = ("plan", "--execute", "--tracker", project.tracker, *project.places())
        done = run_here(PROGRAM, *words, "--json", cwd=project.home)
        report = document(done)
        assert (done.code, report["dry_run"], report["items_selected"]) == (0, True, ["A"])
        assert report["schema"] == "tidegate/plan/1"
        assert project.branches() == []
        assert not project.state.exists()


@pytest.mark.more
@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
def test_at_a_terminal_the_report_is_for_people(tmp_path: Path) -> None:
    with a_project(tmp_path) as project:
        project.track(item("a"))
        words = (str(PROGRAM), "plan", "--tracker", project.tracker, *project.places())
        mine, theirs = os.openpty()
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NO_COLOR": "1"}
        command = [*PYTHON, *map(str, words)]
        with subprocess.Popen(command, cwd=project.home, env=env, stdout=theirs) as running:
            os.close(theirs)
            shown = b""
            while part := read(mine):
                shown += part
        os.close(mine)
        assert running.returncode == 0
        assert b"would build 1 item:" in shown
        assert b"{" not in shown


def read(terminal: int) -> bytes:
    """The next output; nothing once the other side is closed, which Linux tells as an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


@pytest.mark.parametrize("name", ["backlog_scan", "program", "starter"])
def test_a_module_that_is_no_program_says_so(name: str, tmp_path: Path) -> None:
    done = run(ROOT / "tools" / f"{name}.py", cwd=tmp_path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert f"tools/{name}.py is no program" in done.err


@pytest.mark.parametrize("threshold", ["nan", "-1", "inf"])
def test_a_threshold_is_a_number_of_seconds(threshold: str, tmp_path: Path) -> None:
    words = ("--transcripts-root", tmp_path, f"--threshold-seconds={threshold}")
    done = run_here(ROOT / "tools" / "stall_check.py", *words, cwd=tmp_path)
    assert (done.code, done.out) == (2, "")


def test_no_command_is_exit_1_only_for_two_files_as_in_the_source(tmp_path: Path) -> None:
    for name in ("fleet_ledger", "heartbeat"):
        assert run_here(ROOT / "tools" / f"{name}.py", cwd=tmp_path).code == 1
    assert typed("ledger").code == 2
