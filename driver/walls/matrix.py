"""Prints what the escape test shows at each level: `python -m driver.walls.matrix [NETWORK]`."""

from __future__ import annotations

import os
import sys

from driver.execution.processes import Processes
from driver.execution.sandbox_probe import kernel_facts
from driver.walls.attempts import ATTEMPTS
from driver.walls.choice import Asked, candidates
from driver.walls.escape import ESCAPES, Held, attempted
from driver.walls.wall import Level, Means, Network


def main(words: list[str], image: str = "") -> None:
    """Test each level that may work here, and print a row for each attempt. The level `container`
    needs an image."""
    network = Network(words[0]) if words else Network.LOOPBACK
    processes = Processes()
    facts, in_image = kernel_facts(), Asked(Level.CONTAINER, image=image)
    possible = tuple(
        means for asked in (in_image, Asked()) for means in candidates(asked, facts, os.environ, ())
    )
    columns = [(_title(means), attempted(means, network, processes)) for means in possible]
    who = "root" if os.getuid() == 0 else "an ordinary user"
    lines = [f"As {who}, network {network}", _row("", [title for title, _ in columns])]
    for name in ATTEMPTS:
        lines.append(_row(name, [_word(held, name) for _, held in columns]))
    counts = [f"{len(held.blocked.keys() & set(ESCAPES))} of {len(ESCAPES)}" for _, held in columns]
    lines.append(_row("escapes blocked", counts))
    lines += [f"{title}: {held.problem}" for title, held in columns if held.problem]
    if "-v" in words:
        lines += [f"{title}: {held}" for title, held in columns]
    sys.stdout.write("\n".join(lines) + "\n")


def _title(means: Means) -> str:
    """The level, and the two forms of `landlock` apart."""
    return f"{means.name}{' +ns' if means.namespaces else ''}"


def _word(held: Held, name: str) -> str:
    """The cell of an attempt; a wall that could not be tried says nothing."""
    return "ESCAPED" if name in held.escaped else "blocked" if name in held.blocked else "-"


def _row(name: str, cells: list[str]) -> str:
    return f"{name:20}" + "".join(f"{cell:17}" for cell in cells)


if __name__ == "__main__":
    main(sys.argv[1:])
