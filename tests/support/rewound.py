"""A folder as a costly run has left it, put back to that for every test."""

from __future__ import annotations

import shutil
from pathlib import Path


class Rewound:
    """`folder` is kept as it is now. It is put back where it was, for its paths stand in states."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._kept = folder.with_name(f"{folder.name}.kept")
        shutil.copytree(folder, self._kept, symlinks=True)

    def again(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self._kept, self.folder, symlinks=True)
