"""Work that is kept as a patch: its file says which commit of which repository it applies to.

The base is written down with the work, once, so that no later state of the repository or of a
clone can be taken for it. `git apply` passes over these lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from driver.git.command import raw, text

WORK = "work.patch"
INTERRUPTED = "interrupted.patch"
REVIEWED = "reviewed.patch"  # what a reviewer asked changes of, while they are being made
STEPS = "step-*.patch"
_BASE = b"Tidegate-Base: "
_REPOSITORY = b"Tidegate-Repository: "


def step_patch(tree: str) -> str:
    """The name of the patch that makes the tree which a step of a pipeline has left."""
    return f"step-{tree[:16]}.patch"


@dataclass(frozen=True, slots=True)
class Origin:
    """What a patch applies to; "" and None where its file does not say."""

    base: str = ""
    top: Path | None = None


def with_origin(patch: bytes, origin: Origin) -> bytes:
    """A patch with its origin before it; an empty one stays empty."""
    if not patch:
        return b""
    lines = _BASE + raw(origin.base) + b"\n"
    if origin.top is not None:
        lines += _REPOSITORY + raw(str(origin.top)) + b"\n"
    return lines + b"\n" + patch


def origin_of(patch: bytes) -> Origin:
    """What stands before a patch."""
    head = patch[: max(patch.find(b"\n\n"), 0)].split(b"\n")
    base = next((line.removeprefix(_BASE) for line in head if line.startswith(_BASE)), b"")
    tops = [line.removeprefix(_REPOSITORY) for line in head if line.startswith(_REPOSITORY)]
    return Origin(text(base), Path(text(tops[0])) if tops else None)
