"""The programs themselves, with broken manifests, trackers, settings and flags.

Each ends with the exit code that its input allows, which the readers of these documents tell by
themselves, and with sentences on stderr. A program that is not done has changed nothing on disk. A
failure names the number of its case.
"""

from __future__ import annotations

import functools
import json
import random
import shutil
from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from driver.domain.work_item import parse_manifest
from state_store.documents.errors import TidegateError
from state_store.documents.files import read_json
from state_store.tracker.file import read_tracker_file
from tests.attacks.test_fuzzed_documents import a_document
from tests.attacks.test_fuzzed_inputs import ODD, TOML, torn
from tests.support.programs import (
    ROOT,
    Project,
    Ran,
    environment,
    git,
    make_template,
    run_here,
    tree_hash,
)
from tools.settings.load import load
from tools.settings.schema import KINDS

SAMPLE = 8  # of each way
# Of all ways together 10,000; a doctor looks at much of the machine.
WHOLE = {"tracker": 2200, "manifest": 2200, "settings": 2200, "add": 2200, "init": 1000}
WHOLE |= {"doctor": 200}
WORDS = [one for one in ODD if isinstance(one, str) and not {*one} & {*"\0\ud800"}]
WORDS += ["\udcff", "a b", "'", '"', "--", "--json", "x.py", "true", "\x1b[31m", "a\nb"]
DONE, BAD_INPUT, CANNOT_RUN = 0, 2, 4


@dataclass(frozen=True)
class Case:
    """A start of a program, and the exit codes that its input allows. `may_write` if it is done."""

    start: Callable[[], Ran]
    codes: Set[int]
    may_write: bool = False


def given(chance: random.Random, file: Path) -> None:
    file.write_bytes(torn(chance, json.dumps(a_document(chance)).encode()))


def refused(work: Callable[[], object]) -> set[int]:
    """The exit code of a refusal by the reader of a document; empty if it is taken."""
    try:
        work()
    except TidegateError as error:
        return {int(error.exit_code)}
    return set()


def a_tracker(chance: random.Random, project: Project) -> Case:
    given(chance, project.tracker)
    codes = refused(lambda: read_tracker_file(project.tracker)) or {DONE, BAD_INPUT}
    return Case(lambda: project.schedule("--dry-run"), codes)


def a_manifest(chance: random.Random, project: Project) -> Case:
    manifest = project.home / "manifest.json"
    given(chance, manifest)

    def read() -> None:
        parse_manifest(read_json(manifest), new_wave_id=lambda: "w")

    codes = refused(read) or {DONE, BAD_INPUT}
    return Case(lambda: project.loop("--manifest", manifest, "--dry-run"), codes)


def wrong_settings(chance: random.Random, project: Project) -> set[int]:
    """Write settings that may be broken; returns the exit code of their refusal."""
    lines = TOML.splitlines()
    for _ in range(chance.randrange(4)):
        name = chance.choice(list(KINDS)).rpartition(".")[2]
        lines.insert(chance.randrange(len(lines)), f"{name} = {json.dumps(chance.choice(ODD))}")
    project.config.write_bytes(torn(chance, "\n".join(lines).encode()))
    environ = environment(project.home)
    return refused(lambda: load(project=project.top, config=project.config, environ=environ))


def settings(chance: random.Random, project: Project) -> Case:
    project.track()
    codes = wrong_settings(chance, project) or {DONE, BAD_INPUT, CANNOT_RUN}
    return Case(lambda: project.schedule("--dry-run"), codes)


def doctor(chance: random.Random, project: Project) -> Case:
    codes = wrong_settings(chance, project) or {DONE, CANNOT_RUN}
    if chance.random() < 0.5:
        project.state.mkdir(exist_ok=True)
        given(chance, project.state / "tracker.json")
    words = [*project.places(), *chance.choice([(), ("--json",)])]
    return Case(lambda: run_here(ROOT / "tools" / "doctor.py", *words, cwd=project.home), codes)


def add(chance: random.Random, project: Project) -> Case:
    given(chance, project.tracker)
    refusal = refused(lambda: read_tracker_file(project.tracker))
    words = [f"--tracker={project.tracker}", f"--state-dir={project.state}"]
    for flag in ("--owns", "--test", *chance.sample(ADDED, chance.randrange(3))):
        words.append(f"{flag}={chance.choice(WORDS)}")
    words += chance.choice([["--", chance.choice(WORDS)], [], ["Round prices"]])
    start = functools.partial(run_here, ROOT / "tools" / "add.py", *words, cwd=project.home)
    return Case(start, refusal or {DONE, BAD_INPUT}, may_write=True)


def init(chance: random.Random, project: Project) -> Case:
    words = [f"--repo={project.top}", f"--state-dir={project.state}", "--yes"]
    if chance.random() < 0.5:
        given(chance, project.top / "tidegate.toml")
    if chance.random() < 0.3:
        project.state.mkdir(exist_ok=True)
        given(chance, project.state / "tracker.json")
    for flag in chance.sample(["--agent", "--test", "--workflow", "--color"], 2):
        words.append(f"{flag}={chance.choice(WORDS)}")
    start = functools.partial(run_here, ROOT / "tools" / "init.py", *words, cwd=project.home)
    return Case(start, {DONE, BAD_INPUT, CANNOT_RUN}, may_write=True)


ADDED = ["--id", "--slug", "--priority", "--depends", "--label", "--lane", "--work-dir", "--status"]
ADDED += ["--prompt", "--prompt-file", "--nonsense"]
WAYS: dict[str, Callable[[random.Random, Project], Case]] = {
    **{"tracker": a_tracker, "manifest": a_manifest, "settings": settings},
    **{"doctor": doctor, "add": add, "init": init},
}


def items_of(tracker: Path) -> list[Any]:
    document = json.loads(tracker.read_bytes())
    found: list[Any] = document["items"] if isinstance(document, dict) else document
    return found


def ask_with(way: str, seeds: range, folder: Path) -> dict[int, int]:
    """The exit code of each case."""
    project = Project(folder / "project", make_template(folder / "template"))
    codes = {}
    for seed in seeds:
        project.configure()
        case = WAYS[way](random.Random(f"{way} {seed}"), project)
        before = tree_hash(project.home)
        ran = case.start()
        named = f"{way} {seed}: exit code {ran.code} of {case.codes}, {ran.err}"
        codes[seed] = ran.code
        assert ran.code in case.codes, named
        assert "Traceback" not in ran.err + ran.out, named
        assert ran.code == DONE or ran.err.strip() or ran.out.strip(), named
        for line in ran.err.splitlines():
            assert line.strip(), named
            assert line.isprintable(), named
        assert len(ran.err) < 50_000, named
        if ran.code or not case.may_write:
            assert tree_hash(project.home) == before, named
        if ran.code == DONE and way == "add":
            read_tracker_file(project.tracker)
            assert items_of(project.tracker), named
        shutil.rmtree(project.state, ignore_errors=True)
        for path in git(project.top, "ls-files", "--others").splitlines() if case.may_write else ():
            (project.top / path).unlink()
    return codes


@pytest.mark.sampled(1)
@pytest.mark.parametrize("way", list(WAYS))
def test_a_program_refuses_broken_input_in_sentences(way: str, tmp_path: Path) -> None:
    codes = ask_with(way, range(SAMPLE), tmp_path)
    assert 2 in codes.values()


@pytest.mark.sweep
@pytest.mark.parametrize("way", list(WAYS))
def test_programs_refuse_all_broken_input(way: str, tmp_path: Path) -> None:
    codes = ask_with(way, range(SAMPLE, WHOLE[way]), tmp_path)
    assert len({*codes.values()}) > 1
