"""Where a tool that is started by hand works: settings, state folder and repository."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from driver.git.private_git import Repository, open_repository
from driver.scheduler.context import repository_in_sight
from driver.workspace.root import workspace_root
from state_store.errors import InputError
from tools.settings import Settings, process_environment
from tools.settings import load as load_settings


@dataclass(frozen=True, slots=True)
class Surroundings:
    """`repository` is the one asked for, else that of the current folder, else None."""

    settings: Settings
    repository: Repository | None

    @property
    def state_dir(self) -> Path:
        """The state folder, which may not exist."""
        return Path(os.path.realpath(self.settings.state_dir))

    @property
    def workspaces(self) -> Path | None:
        """The folder that runs on this repository make their own folders in."""
        if self.repository is None:
            return None
        environ = self.settings.environ
        return workspace_root(self.settings.workspace.root, environ, self.repository)


def surroundings(
    repo: str | None, state_dir: str | None, config: str | None = None
) -> Surroundings:
    """Look around. Raises InputError for a folder that is no repository, or wrong settings."""
    environ = process_environment()
    top = Path(repo) if repo else repository_in_sight((Path.cwd(),))
    repository = open_repository(top, environ) if top else None
    project = repository.top if repository else Path.cwd()
    named = Path(config) if config else None
    settings = load_settings(project=project, config=named, flags={"state_dir": state_dir})
    return Surroundings(settings, repository)


def existing_state(place: Surroundings) -> Path:
    """The state folder. Raises InputError when there is none."""
    if not place.state_dir.is_dir():
        raise InputError(f"there is no state folder {place.state_dir}: name it with --state-dir")
    return place.state_dir
