"""What a cycle and its wave have found out of places on disk: git is asked about each but once.

Good for as long as nobody is expected to move a repository: one cycle and the wave in it. What a
branch is at is no part of it; a wave asks for that when it begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from driver.git import open_repository, toplevel_of
from driver.git_command import run_git, text, user_environment


@dataclass(frozen=True)
class Survey:
    """`environ` is what git is run with."""

    environ: Mapping[str, str]
    _tops: dict[Path, Path | None] = field(default_factory=dict)
    _sound: set[Path] = field(default_factory=set)

    def top_of(self, folder: Path) -> Path | None:
        """The top of the checkout that `folder` is in; None outside any."""
        if folder not in self._tops:
            self._tops[folder] = toplevel_of(folder, self.environ)
        return self._tops[folder]

    def check_repository(self, top: Path) -> None:
        """Raise InputError or CannotRunError when no wave can work on the checkout at `top`."""
        if top not in self._sound:
            open_repository(top, self.environ)
            self._sound.add(top)

    def committed_text(self, top: Path, path: str) -> str | None:
        """A file of the commit that the checkout at `top` is on; None where it has no such file."""
        env = user_environment(self.environ)
        found = run_git(("cat-file", "blob", f"HEAD:{path}"), cwd=top, env=env, accept=(0, 1, 128))
        return text(found.stdout) if found.ok else None
