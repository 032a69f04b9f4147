"""Work saved as a patch file, whose first lines name its repository and base commit. The lines are
written once, with the work, so that no later state of the repository or clone is mistaken for its
base. `git apply` ignores them."""

from __future__ import annotations

from pathlib import Path

from driver.git.command import raw, text
from state_store.values.lazy_dataclass import dataclass

WORK = "work.patch"
INTERRUPTED = "interrupted.patch"
STEPS = "step-*.patch"
_BASE = b"Tidegate-Base: "
_REPOSITORY = b"Tidegate-Repository: "


def step_patch(tree: str) -> str:
    """The file name of the patch for the tree of a pipeline step."""
    return f"step-{tree[:16]}.patch"


@dataclass(frozen=True, slots=True)
class Origin:
    """The commit `base` that a patch applies to, and the top of its repository; "" and None if
    unknown."""

    base: str = ""
    top: Path | None = None


def with_origin(patch: bytes, origin: Origin) -> bytes:
    """The patch after lines with its origin; an empty patch stays empty."""
    if not patch:
        return b""
    lines = _BASE + raw(origin.base) + b"\n"
    if origin.top is not None:
        lines += _REPOSITORY + raw(str(origin.top)) + b"\n"
    return lines + b"\n" + patch


def origin_of(patch: bytes) -> Origin:
    """The origin in a patch file."""
    head = patch[: max(patch.find(b"\n\n"), 0)].split(b"\n")
    base = next((line.removeprefix(_BASE) for line in head if line.startswith(_BASE)), b"")
    tops = [line.removeprefix(_REPOSITORY) for line in head if line.startswith(_REPOSITORY)]
    return Origin(text(base), Path(text(tops[0])) if tops else None)
