"""Waves in tests: a backend whose agents are Python functions, and the place where they work."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from driver.backend_api.driver import (
    AgentDriver,
    DriverCapabilities,
    Usage,
    WorkerRequest,
    WorkerResult,
)
from driver.backends.cli.local_driver import LocalDriver
from driver.run_state.plan import WaveOptions
from driver.terminal.progress import Progress
from driver.wave_loop import run_wave
from tests.support.repos import Checkout, make_bare, make_repo, user_environ
from tools.settings.load import Settings, load

PATIENCE_S = 120.0
BILLED = Usage(70, 30, 0.01)


@dataclass(frozen=True, slots=True)
class Agent:
    """What an agent of a `ScriptedDriver` is given: its folder and what it was told."""

    request: WorkerRequest

    @property
    def folder(self) -> Path:
        return Path(self.request.workdir)

    @property
    def prompt(self) -> str:
        return self.request.prompt

    def write(self, files: Mapping[str, str]) -> None:
        Checkout(self.folder, {}).write(files)


Step = Callable[[Agent], WorkerResult | None]


def writes(**files: str) -> Step:
    """An agent that writes these files, `a__txt` standing for `a.txt`, and says it is done."""
    named = {name.replace("__", "."): text for name, text in files.items()}
    return lambda agent: agent.write(named)


class ScriptedDriver(LocalDriver):
    """Agents are functions, one a round of an item; tests run as real processes.

    An agent that returns nothing has ended well and was billed `BILLED`.
    """

    name = "scripted"

    def __init__(
        self, scripts: Mapping[str, Sequence[Step] | Step], *, tier: int = 1, **options: Any
    ) -> None:
        super().__init__(**options)
        self._scripts = {s: [one] if callable(one) else [*one] for s, one in scripts.items()}
        self._tier = tier
        self.requests: list[WorkerRequest] = []

    def probe_capabilities(self) -> DriverCapabilities:
        return DriverCapabilities(
            name=self.name,
            parallel_dispatch=True,
            worker_filesystem_access=True,
            recommended_verification_tier=self._tier,
        )

    def resolve_model(self, role: str) -> str:
        return f"scripted-{role}"

    def answer(self, worker_id: str, request: WorkerRequest) -> WorkerResult:
        self.requests.append(request)
        slug = request.environment["TIDEGATE_ITEM"]
        said = self._scripts[slug].pop(0)(Agent(request))
        result = said or WorkerResult(worker_id, ok=True, usage=BILLED)
        result.worker_id = result.worker_id or worker_id
        return result

    def rounds_of(self, slug: str) -> list[WorkerRequest]:
        return [r for r in self.requests if r.environment["TIDEGATE_ITEM"] == slug]


def item(slug: str, owns: str | Sequence[str], test: Any, **more: Any) -> dict[str, Any]:
    """An item of a manifest."""
    files = [owns] if isinstance(owns, str) else list(owns)
    prompt = f"Do {slug}."
    return {"slug": slug, "prompt": prompt, "ownsFiles": files, "testCmd": test, **more}


class Scene:
    """A user with a home, a repository, perhaps a remote, and a state folder."""

    def __init__(
        self,
        folder: Path,
        files: Mapping[str, str | bytes],
        *,
        remote: bool = False,
        config: str = "",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.environ = user_environ(folder / "home", **(environ or {}))
        self.repo = make_repo(folder / "repo", self.environ, files)
        self.state = folder / "state"
        self.said = io.StringIO()
        self._config = folder / "tidegate.toml"
        self._config.write_text(config, encoding="utf-8")
        self.remote: Checkout | None = None
        if remote:
            self.remote = make_bare(folder / "remote.git", self.environ)
            self.repo.git("remote", "add", "origin", str(self.remote.path))
            self.repo.git("push", "-q", "-u", "origin", "main")

    @property
    def settings(self) -> Settings:
        return load(
            project=self.repo.path, config=self._config, environ=self.environ, cwd=self.folder
        )

    def options(self, **more: Any) -> WaveOptions:
        made = WaveOptions(
            settings=self.settings, repo=self.repo.path, progress=Progress(self.said)
        )
        return replace(made, **more)

    def run(
        self,
        driver: AgentDriver | Any,
        items: Sequence[Mapping[str, Any]],
        *,
        git: Mapping[str, Any] | None = None,
        wave_id: str = "w1",
        resume: bool = False,
        **options: Any,
    ) -> dict[str, Any]:
        """A wave to a wave branch of the repository, unless `git` says otherwise."""
        to_branch = {"expectTopLevel": str(self.repo.path), "mode": "branch"}
        report = run_wave(
            driver,
            {"wave_id": wave_id, "items": list(items)},
            state_dir=self.state,
            git=to_branch if git is None else git,
            resume_journal=resume,
            options=self.options(**options),
        )
        json.dumps(report)  # every answer can be written down
        return report

    def play(
        self, scripts: Mapping[str, Any], items: Sequence[Mapping[str, Any]], **more: Any
    ) -> tuple[dict[str, Any], ScriptedDriver]:
        """`run` with a fresh `ScriptedDriver`; the answer is (report, driver)."""
        driver = ScriptedDriver(scripts, environ=self.environ)
        return self.run(driver, items, **more), driver

    def log(self, branch: str) -> list[str]:
        """The commits of a branch that are not on main, the oldest first."""
        told = self.repo.git("rev-list", "--reverse", f"main..{branch}")
        return told.split()

    def files_in(self, commit: str) -> dict[str, str]:
        """What a commit changes: path to status letter."""
        told = self.repo.git("show", "--format=", "--name-status", "--no-renames", commit)
        return {path: letter for letter, _, path in (x.partition("\t") for x in told.splitlines())}

    def trailers(self, commit: str) -> dict[str, str]:
        told = self.repo.git("show", "-s", "--format=%(trailers:only,unfold)", commit)
        return dict(line.split(": ", 1) for line in told.splitlines())


def built(report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The items' records by slug."""
    return {record["slug"]: record for record in report["built"]}


def verdicts(report: Mapping[str, Any]) -> dict[str, str]:
    """The items' verdicts by slug."""
    return {slug: record["verdict"] for slug, record in built(report).items()}
