"""The command `tidegate`: runs the program of a subcommand with the other arguments."""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:  # run as a file, or imported by its bare name
    _ROOT = str(Path(__file__).resolve().parents[1])
    if __name__ == "__main__":
        sys.path[0] = _ROOT  # import from the checkout, not from this folder
    else:
        from importlib import import_module

        sys.path.append(_ROOT)
        sys.modules[__name__] = import_module("driver.tidegate")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAMS = {
    "init": ("tools.init", "make what a project needs to start"),
    "doctor": ("tools.doctor", "say whether a wave can run here"),
    "intake": ("tools.intake", "bring work from elsewhere into the tracker"),
    "run": ("driver.wave_scheduler", "run one wave of the backlog's next items"),
    "wave": ("driver.wave_loop", "run the wave that a manifest describes"),
    "halt": ("tools.halt", "stop all runs, or let them go on"),
    "status": ("tools.state", "what the store knows of items and waves"),
    "recover": ("tools.recover", "list and bring back work that did not ship"),
    "reproduce": ("tools.reproduce", "prove a shipped commit again"),
    "gc": ("tools.gc", "remove what finished and dead runs left"),
    "secrets": ("tools.secret_scan", "look for secrets before they are published"),
    "verify-state": ("tools.verify_state", "find and mend damage of the store"),
    "preflight": ("tools.wave_preflight", "say whether the project is ready for a wave"),
    "templates": ("tools.wave_templates", "manifests to begin with"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """The program; returns the exit code of the one it hands over to."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        from tools.program import flushed

        return flushed(_help)
    # `tidegate --execute` was the scheduler before there were words.
    word, rest = ("run", words) if words[0].startswith("-") else (words[0], words[1:])
    if word not in PROGRAMS:
        known = ", ".join(PROGRAMS)
        print(f"tidegate: there is no {word!r}; there is {known}", file=sys.stderr)
        return 2
    from importlib import import_module

    try:
        code: int = import_module(PROGRAMS[word][0]).main(rest)
    except KeyboardInterrupt:
        return 130
    return code


def _help() -> int:
    print("usage: tidegate WORD ...\n")
    for word, (_, purpose) in PROGRAMS.items():
        print(f"  {word:<14}{purpose}")
    print("\ntidegate WORD --help: its flags")
    return 0


if __name__ == "__main__":
    sys.exit(main())
