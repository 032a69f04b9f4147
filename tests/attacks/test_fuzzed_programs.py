"""The programs themselves, asked for a plan of broken manifests, trackers and settings.

Each ends with one of the documented exit codes and with sentences on stderr, and changes nothing on
disk. A failure names the number of its case.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attacks.test_fuzzed_documents import a_document
from tests.attacks.test_fuzzed_inputs import ODD, TOML, torn
from tests.support.programs import Project, Ran, make_template, tree_hash
from tools.settings.schema import KINDS

EXIT_CODES = (0, 1, 2, 3, 4)
SAMPLE, WHOLE = 8, 340  # of each kind

Start = Callable[[], Ran]


def given(chance: random.Random, file: Path) -> None:
    file.write_bytes(torn(chance, json.dumps(a_document(chance)).encode()))


def a_tracker(chance: random.Random, project: Project) -> Start:
    given(chance, project.tracker)
    return lambda: project.schedule("--dry-run")


def a_manifest(chance: random.Random, project: Project) -> Start:
    manifest = project.home / "manifest.json"
    given(chance, manifest)
    return lambda: project.loop("--manifest", manifest, "--dry-run")


def settings(chance: random.Random, project: Project) -> Start:
    project.track()
    lines = TOML.splitlines()
    for _ in range(chance.randrange(4)):
        name = chance.choice(list(KINDS)).rpartition(".")[2]
        lines.insert(chance.randrange(len(lines)), f"{name} = {json.dumps(chance.choice(ODD))}")
    project.config.write_bytes(torn(chance, "\n".join(lines).encode()))
    return lambda: project.schedule("--dry-run")


WAYS: dict[str, Callable[[random.Random, Project], Start]] = {
    "tracker": a_tracker,
    "manifest": a_manifest,
    "settings": settings,
}


def ask_with(way: str, seeds: range, folder: Path) -> dict[int, int]:
    """The exit code of each case."""
    project = Project(folder / "project", make_template(folder / "template"))
    codes = {}
    for seed in seeds:
        project.configure()
        start = WAYS[way](random.Random(f"{way} {seed}"), project)
        before = tree_hash(project.home)
        ran = start()
        case = f"{way} {seed}: exit code {ran.code}, {ran.err}"
        codes[seed] = ran.code
        assert ran.code in EXIT_CODES, case
        assert "Traceback" not in ran.err + ran.out, case
        assert ran.code in (0, 1) or ran.err.strip() or ran.out.strip(), case
        for line in ran.err.splitlines():
            assert line.strip(), case
            assert line.isprintable(), case
        assert len(ran.err) < 50_000, case
        assert tree_hash(project.home) == before, case
    return codes


@pytest.mark.sampled(1)
@pytest.mark.parametrize("way", list(WAYS))
def test_a_program_refuses_broken_input_in_sentences(way: str, tmp_path: Path) -> None:
    codes = ask_with(way, range(SAMPLE), tmp_path)
    assert 2 in codes.values()


@pytest.mark.sweep
@pytest.mark.parametrize("way", list(WAYS))
def test_programs_refuse_all_broken_input(way: str, tmp_path: Path) -> None:
    codes = ask_with(way, range(SAMPLE, WHOLE), tmp_path)
    assert {0, 2} <= {*codes.values()}
