"""Finds the reports of past waves in the state folder, the newest first. Reads only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from driver.reports.documents import wave_of, whole_record
from driver.terminal.safe_text import safe_line
from state_store.documents.errors import InputError
from state_store.documents.files import BadFileError, read_json

Json = Mapping[str, Any]
DOCUMENT = "report.json"
_SHOWN = 10


class PastWave(NamedTuple):
    """A wave that ended: its folder, the time of its report in seconds since the epoch, and the
    short document."""

    folder: Path
    ended: float
    report: Json

    @property
    def wave_id(self) -> str:
        """The wave's id."""
        return str(wave_of(self.report).get("wave_id") or self.folder.name)

    def whole(self) -> dict[str, Any]:
        """The report with all details, also if the state folder was moved."""
        wave = wave_of(self.report)
        built = [whole_record(one, self.folder) for one in wave.get("built") or ()]
        whole = {**wave, "built": built}
        return whole if wave is self.report else {**self.report, "wave": whole}


@contextmanager
def reading(wave: PastWave) -> Iterator[None]:
    """Raises InputError within the block if a value of the wave's report is of a wrong kind, as in
    a file that was edited or is of another program."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        why = safe_line(f"{type(error).__name__}: {error}")
        path = wave.folder / DOCUMENT
        raise InputError(
            f"{path} is damaged ({why}): put back a copy of it, or remove it"
        ) from error


def past_waves(state_dir: Path) -> Iterator[PastWave]:
    """Yields each wave with a readable report, the newest first."""
    found = []
    for path in (state_dir / "runs").glob(f"*/{DOCUMENT}"):
        with suppress(OSError):  # removed meanwhile, or a link to nothing
            if path.parent.is_symlink():
                continue
            found.append((path.stat().st_mtime, path))
    for ended, path in sorted(found, reverse=True):
        try:
            document = read_json(path)
        except BadFileError:
            continue
        if isinstance(document, dict):
            yield PastWave(path.parent, ended, document)


def past_wave(state_dir: Path, named: str | None) -> PastWave:
    """The wave whose id begins with `named`, else the newest one. Raises InputError if there is
    none, or if several waves have this prefix."""
    found = list(past_waves(state_dir))
    begins = [one for one in found if one.wave_id.startswith(named or "")]
    exact = [one for one in begins if one.wave_id == named]
    if not found:
        raise InputError(f"no wave of {state_dir} has a report yet: run one first")
    if not begins:
        names = ", ".join(one.wave_id for one in found[:_SHOWN])
        raise InputError(f"no wave {named!r} has a report; available: {names}")
    if named and not exact and len(begins) > 1:
        names = ", ".join(one.wave_id for one in begins[:_SHOWN])
        raise InputError(f"{named!r} may be any of {names}: give more of the wave's id")
    return (exact or begins)[0]
