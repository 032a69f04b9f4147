"""The output files below the folder of an item: of its agents, tests and hooks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from driver.filesystem.kept_output import ENDINGS

_INNER = {"imports"}  # folders of Tidegate's own questions
_DEEPEST = 4  # folders; the outputs of a further try of an agent lie in the second one


def outputs(
    folder: Path, *more_endings: str, deepest: int = _DEEPEST
) -> Iterator[tuple[str, os.stat_result]]:
    """Yields each output with its name in the folder. Links are left out, also those to folders."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if deepest and entry.name not in _INNER:
                    inner = outputs(Path(entry.path), *more_endings, deepest=deepest - 1)
                    yield from ((f"{entry.name}/{name}", seen) for name, seen in inner)
            elif entry.name.endswith((*ENDINGS, *more_endings)) and entry.is_file(
                follow_symlinks=False
            ):
                yield entry.name, entry.stat(follow_symlinks=False)
