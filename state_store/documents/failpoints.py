"""Named points before and after every durable effect, at which a test can kill the process.

Armed by the variable TIDEGATE_FAIL, read once at import (the one variable not read by settings:
this must work below every other module). `where=what`, several separated by `;`:
where: `name` (each hit), `name@2` (its second), `#7` (the seventh of any), `*` (each of any);
what: kill, term, stop, hang, exit:N, an errno name (raises OSError), torn:N (the point writes N
bytes, then the process is killed), trace:FILE (append the name and go on).
"""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

_ARMED = [
    (where, action)
    for where, _, action in (
        part.partition("=") for part in os.environ.get("TIDEGATE_FAIL", "").split(";") if part
    )
]
_hits: Counter[str] = Counter()
_counting = threading.Lock()


def active() -> bool:
    """True if a point is armed. The report then says so, and the wave pushes only to folders."""
    return bool(_ARMED)


def failpoint(name: str, torn: Callable[[int], object] | None = None) -> None:
    """Run the armed action of this point, if any.

    `torn(n)` writes the first n bytes of the next write. Raises OSError if that is armed.
    """
    if not _ARMED:
        return
    with _counting:
        _hits.update((name, "#"))
        here = {"*", name, f"{name}@{_hits[name]}", f"#{_hits['#']}"}
    for where, action in _ARMED:
        if where in here:
            _act(name, action, torn)


def _act(name: str, action: str, torn: Callable[[int], object] | None) -> None:
    kind, _, argument = action.partition(":")
    if kind == "trace":
        with Path(argument).open("a", encoding="ascii") as trace:
            trace.write(f"{name}\n")
    elif kind == "exit":
        os._exit(int(argument))
    elif kind == "hang":
        threading.Event().wait()
    elif kind in ("kill", "term", "stop", "torn"):
        if kind == "torn" and torn is not None:
            torn(int(argument))
        os.kill(os.getpid(), _SIGNALS[kind])
    else:
        raise OSError(getattr(errno, kind), os.strerror(getattr(errno, kind)), name)


_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # on Windows SIGTERM is as final
_SIGNALS = {
    "kill": _KILL,
    "torn": _KILL,
    "term": signal.SIGTERM,
    "stop": getattr(signal, "SIGSTOP", signal.SIGTERM),
}
