"""Cases of cheating and of honest agents as data, and one wave that plays many of them.

Each case is an item in a folder of its own; all cases of a runner share one repository. The agent
is a stand-in that writes the case's files. Before it says that it is done it runs the test itself
in a copy of its folder, so that a case tells whether it would have fooled a plain exit code.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from driver.execution.processes import capture, child_environment
from tests.support.waves import Agent, Scene, ScriptedDriver, Step, built, item

DEADLINE_S = 300
_COMMITS_ALL = """
git init -q && git add -A && git -c user.name=tester -c user.email=t@example.org commit -qm all
"""
WIDTH = 8
CONFIG = """
[review]
mode = "off"
[verify]
timeout_s = 60
env = ["PYTEST_DISABLE_PLUGIN_AUTOLOAD", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "GOPATH",
       "npm_config_update_notifier", "CARGO_NET_OFFLINE", "GOFLAGS", "GOPROXY"]
"""
ENVIRON = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "npm_config_update_notifier": "false"}
WRITES_NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
TIER = 3  # every green is spot checked

# How a refusal's sentence tells which defence it was.
_SENTENCES = (
    (r"testCmd:", "command"),
    (r"changed outside its files|links that leave|a nested repository", "ownership"),
    (r"touched protected files", "protected"),
    (r"without the tests that it adds", "added tests"),
    (r"canary passed", "canary"),
    (r"different answers for one tree", "spot check"),
    (r"the test run changed tracked files", "tampered tree"),
    (r"left processes running", "survivors"),
    (r"the environment of all tests changed", "environment"),
    (
        r"fewer tests ran|more tests are skipped|no test ran|in doubt|but the exit code",
        "counts",
    ),
    (r"no longer shows the number|the tests ran with", "counts"),
    (r"test failed with exit|the test was killed", "exit code"),
    (r"nothing differs from the base|nothing was changed", "no change"),
)


@cache
def _is_there(program: str) -> bool:
    if not (found := shutil.which(program)):
        return False
    # Installed by rustup it is a stand-in that fails where the home folder has no toolchain.
    if program != "cargo":
        return True
    return capture((found, "-V"), cwd=Path.cwd(), env=os.environ, timeout_s=60.0).ok


@dataclass(frozen=True, slots=True)
class Project:
    """What all cases of a runner start from; `needs` are programs without which none is played.

    `config` is more of the section `[verify]`, `setup` a command of the set-up. A run that ends
    with `green_exit` counts as green as well."""

    name: str
    files: Mapping[str, str]
    test: Sequence[str] | str
    needs: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)
    config: str = ""
    setup: str = ""
    green_exit: int = 0

    @property
    def is_playable(self) -> bool:
        """True if this machine has the programs, and they run."""
        return all(map(_is_there, self.needs))


@dataclass(frozen=True, slots=True)
class Case:
    """What an agent does, and what has to become of it.

    `writes` maps paths below the case's folder to texts, None deletes; `script` is then run by a
    shell in that folder. `caught` names the defence that stops it, the grade at which it ships, or
    several of these, joined by " or ", if chance decides; it is "" for work that has to ship.
    `base` goes on top of the project's files; `owns` is relative to the case's folder. `{outside}`
    in any text stands for a folder outside of the repository.
    """

    name: str
    writes: Mapping[str, str | None]
    caught: str = ""
    base: Mapping[str, str] = field(default_factory=dict)
    owns: tuple[str, ...] = ()
    test: Sequence[str] | str | None = None
    script: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Played:
    """What became of a case. `fooled`: the test's exit code alone would have been believed. `grade`
    is the one of what shipped, `read_first` true if the report tells a person to read it first."""

    case: Case
    shipped: bool
    defence: str
    reason: str
    fooled: bool
    canary: str = ""
    grade: str = ""
    read_first: bool = False


def slug_of(project: Project, case: Case) -> str:
    """The name of the case's item and of its folder."""
    words = re.sub(r"[^a-z0-9]+", "-", case.name.lower()).strip("-")
    return f"{project.name}-{words}"[:90]


def play(folder: Path, project: Project, cases: Sequence[Case]) -> list[Played]:
    """Waves with all cases of a project; `folder` is new. What ships is tested together, so a wave
    is kept small."""
    waves = [cases[start : start + WIDTH] for start in range(0, len(cases), WIDTH)]
    played = (_play(folder / str(at), project, wave) for at, wave in enumerate(waves))
    return [one for wave in played for one in wave]


def _play(folder: Path, project: Project, cases: Sequence[Case]) -> list[Played]:
    stage = _Stage(folder, project, cases)
    scripts: dict[str, Step] = {slug_of(project, case): stage.agent(case) for case in cases}
    driver = ScriptedDriver(scripts, tier=TIER, environ=stage.scene.environ)
    report = stage.scene.run(driver, [stage.item(case) for case in cases])
    return [stage.played(case, report) for case in cases]


class _Stage:
    """Where the cases of one project are played."""

    def __init__(self, folder: Path, project: Project, cases: Sequence[Case]) -> None:
        self._folder = folder
        self._project = project
        self._fooled: dict[str, bool] = {}
        files = {
            f"{slug_of(project, case)}/{path}": self._said(text, case)
            for case in cases
            for path, text in {**project.files, **case.base}.items()
        }
        setup = f"[workspace]\nsetup = [{json.dumps(project.setup)}]\n" if project.setup else ""
        config = f"{CONFIG}{project.config}{setup}"
        self.scene = Scene(folder, files, config=config, environ={**ENVIRON, **project.environ})

    def item(self, case: Case) -> dict[str, Any]:
        slug = slug_of(self._project, case)
        fields = {"workDir": slug, "repairCap": 0, **case.more}
        return item(slug, list(case.owns or ("./",)), self._test(case), **fields)

    def agent(self, case: Case) -> Step:
        def works(agent: Agent) -> None:
            for path, text in case.writes.items():
                if text is None:
                    (agent.folder / path).unlink()
                else:
                    agent.write({path: self._said(text, case)})
            if case.script:
                script = ["sh", "-ec", self._said(case.script, case)]
                subprocess.run(
                    script,
                    cwd=agent.folder,
                    env={**self.scene.environ},
                    check=True,
                    timeout=DEADLINE_S,
                )
            self._fooled[case.name] = self._runs_green(case, agent.folder)

        return works

    def played(self, case: Case, report: Mapping[str, Any]) -> Played:
        slug = slug_of(self._project, case)
        record = built(report).get(slug)
        # A command is refused at intake, and all that is refused there is told together.
        told = str((record or report).get("error") or "")
        reason = told if record else "; ".join(x for x in told.split("; item") if slug in x)
        shipped = slug in (report.get("shipped") or ())
        found = (name for pattern, name in _SENTENCES if re.search(pattern, reason))
        defence = "" if shipped else next(found, "unknown")
        attempts = (record or {}).get("attempts") or [{}]
        canary = (attempts[-1].get("evidence") or {}).get("canary") or ""
        fooled = self._fooled.get(case.name, False)
        grade = str((record or {}).get("grade") or "") if shipped else ""
        first = any(one["slug"] == slug for one in report.get("read_first") or ())
        return Played(case, shipped, defence, reason, fooled, canary, grade, first)

    def _runs_green(self, case: Case, folder: Path) -> bool:
        """Whether the test is green where the agent worked. It is run in a copy, and what it leaves
        outside is put back."""
        slug = slug_of(self._project, case)
        copy, kept = self._folder / "copies" / slug, self._folder / "kept" / slug
        shutil.copytree(folder, copy, symlinks=True)
        shutil.copytree(self._outside(case), kept)
        settings, test = self.scene.settings, self._test(case)
        # The folder is inside of the agent's clone, and some code asks git about its tests.
        subprocess.run(
            ["sh", "-c", _COMMITS_ALL],
            cwd=copy,
            env=self.scene.environ,
            capture_output=True,
            check=False,
        )
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", test] if isinstance(test, str) else test,
            cwd=copy,
            env=child_environment(settings.environ, settings.verify.env, WRITES_NO_BYTECODE),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=DEADLINE_S,
        )
        shutil.rmtree(self._outside(case))
        shutil.copytree(kept, self._outside(case), dirs_exist_ok=True)
        return done.returncode in (0, self._project.green_exit)

    def _test(self, case: Case) -> list[str] | str:
        test = self._project.test if case.test is None else case.test
        if isinstance(test, str):
            return self._said(test, case)
        return [self._said(word, case) for word in test]

    def _said(self, text: str, case: Case) -> str:
        return text.replace("{outside}", str(self._outside(case)))

    def _outside(self, case: Case) -> Path:
        own = self._folder / "outside" / slug_of(self._project, case)
        own.mkdir(parents=True, exist_ok=True)
        return own
