"""Finds out what the file system of a folder keeps."""

from __future__ import annotations

import stat
import sys
from pathlib import Path


def keeps_what_git_needs(folder: Path) -> bool:
    """True if the file system of an empty folder has modes, links and names as git likes them best,
    so that `git init` would find nothing that it lacks."""
    probe, link = folder / "probe", folder / "link"
    try:
        probe.touch(0o600)
        probe.chmod(0o700)
        link.symlink_to("probe")
        same = not (folder / "PROBE").exists() and link.is_symlink()
        return same and stat.S_IMODE(probe.stat().st_mode) == 0o700 and sys.platform == "linux"
    except OSError:
        return False
    finally:
        for made in (probe, link):
            made.unlink(missing_ok=True)
