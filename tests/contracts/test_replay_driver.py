"""The contract for answers from a recording, and where a replay must not write."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from driver.backend_api.driver import FAILURE_COULD_NOT_RUN, Usage, WorkerResult
from driver.backends.recorded import Recorded, RecordedFile
from driver.backends.recording import RecordingWriter
from driver.backends.replay import ReplayDriver
from state_store.documents.errors import InputError
from tests.contracts.driver_contract import (
    PARENT,
    DriverContract,
    Place,
    Plan,
)

PROMPT = "Do it."


def recorded(**changes: object) -> Recorded:
    values = {"item": "item-1", "phase": "build", "number": 1, "prompt": PROMPT, "ok": True}
    return Recorded(**{**values, **changes})  # type: ignore[arg-type]


def replay(place: Place, *entries: Recorded, **options: object) -> ReplayDriver:
    path = place.root / "wave.jsonl"
    writer = RecordingWriter(path)
    for entry in entries:
        writer.write(entry)
    return ReplayDriver(path, environ=PARENT, **options)  # type: ignore[arg-type]


def replayed(place: Place, *files: RecordedFile) -> WorkerResult:
    return replay(place, recorded(files=files)).dispatch_worker(place.request())


class TestReplayDriver(DriverContract):
    def driver(self, place: Place, plan: Plan, **options: object) -> ReplayDriver:
        files = tuple(
            RecordedFile(path, "100644", text.encode()) for path, text in plan.files.items()
        )
        entry = recorded(
            ok=not plan.fails,
            error="it went wrong" if plan.fails else None,
            usage=plan.usage or Usage(),
            files=files,
        )
        return replay(place, entry, **options)

    def test_the_result_is_the_recorded_one(self, place: Place) -> None:
        entry = recorded(
            ok=False, failure="timed_out", error="late", text="hm", model="m", structured={"a": 1}
        )
        result = replay(place, entry).dispatch_worker(place.request())
        said = (result.failure, result.error, result.text, result.model, result.structured)
        assert said == ("timed_out", "late", "hm", "m", {"a": 1})

    def test_each_attempt_has_its_own_answer(self, place: Place) -> None:
        driver = replay(
            place,
            recorded(text="first"),
            recorded(text="second", phase="repair"),
            recorded(text="third", phase="repair", number=2),
        )
        told = [("build", "1"), ("repair", "1"), ("repair", "2")]
        environments = [{"TIDEGATE_PHASE": phase, "TIDEGATE_ATTEMPT": n} for phase, n in told]
        results = [driver.dispatch_worker(place.request(environment=e)) for e in environments]
        assert [result.text for result in results] == ["first", "second", "third"]

    @pytest.mark.parametrize(
        "environment",
        [{"TIDEGATE_ITEM": "item-2"}, {"TIDEGATE_ATTEMPT": "2"}, {"TIDEGATE_ATTEMPT": "x"}],
    )
    def test_what_was_not_recorded_is_refused_by_name(
        self, place: Place, environment: dict[str, str]
    ) -> None:
        entry = recorded(files=(RecordedFile("a", "100644"),))
        result = replay(place, entry).dispatch_worker(place.request(environment=environment))
        assert (result.ok, result.failure) == (False, FAILURE_COULD_NOT_RUN)
        assert environment.get("TIDEGATE_ITEM", "item-1") in (result.error or "")
        assert not (place.workspace / "a").exists()

    def test_another_prompt_is_refused_unless_items_are_matched(self, place: Place) -> None:
        request = place.request("Do something else.")
        refused = replay(place, recorded()).dispatch_worker(request)
        answered = replay(place, match="item").dispatch_worker(request)
        assert (refused.failure, answered.ok) == (FAILURE_COULD_NOT_RUN, True)
        assert "item-1" in (refused.error or "")

    def test_paths_count_from_the_top_of_the_workspace(self, place: Place) -> None:
        folder = place.workspace / "sub"
        folder.mkdir()
        environment = {"TIDEGATE_WORKSPACE": str(place.workspace)}
        request = place.request(workdir=str(folder), environment=environment)
        driver = replay(place, recorded(files=(RecordedFile("sub/a", "100644", b"x"),)))
        assert driver.dispatch_worker(request).ok
        assert (folder / "a").read_bytes() == b"x"

    def test_bytes_modes_links_and_deletions_are_as_recorded(self, place: Place) -> None:
        (place.workspace / "gone").mkdir()
        (place.workspace / "gone/old").write_bytes(b"old")
        result = replayed(
            place,
            RecordedFile("run", "100755", b"\xff\x00\r\n"),
            RecordedFile("link", "120000", b"run"),
            RecordedFile("gone/old", None),
        )
        assert result.ok
        run, link = place.workspace / "run", place.workspace / "link"
        assert run.read_bytes() == b"\xff\x00\r\n"
        assert os.name == "nt" or stat.S_IMODE(run.stat().st_mode) == 0o755
        assert link.readlink() == Path("run")
        assert not (place.workspace / "gone").exists()

    def test_a_file_may_become_a_folder_and_a_folder_a_file(self, place: Place) -> None:
        (place.workspace / "file").write_bytes(b"")
        (place.workspace / "folder").mkdir()
        (place.workspace / "folder/a").write_bytes(b"")
        result = replayed(
            place,
            RecordedFile("file/a", "100644", b"1"),
            RecordedFile("folder", "100644", b"2"),
            RecordedFile("file", None),
            RecordedFile("folder/a", None),
        )
        assert (result.ok, result.error) == (True, None)
        assert (place.workspace / "file/a").read_bytes() == b"1"
        assert (place.workspace / "folder").read_bytes() == b"2"

    def test_nothing_is_written_through_a_linked_folder(self, place: Place) -> None:
        outside = place.root / "outside"
        outside.mkdir()
        (outside / "kept").write_bytes(b"kept")
        (place.workspace / "link").symlink_to(outside, target_is_directory=True)
        results = [
            replayed(place, RecordedFile("link/new", "100644", b"x")),
            replayed(place, RecordedFile("link/kept", None)),
        ]
        assert [result.failure for result in results] == [FAILURE_COULD_NOT_RUN] * 2
        assert [path.name for path in outside.iterdir()] == ["kept"]

    def test_a_link_that_the_recording_makes_is_no_way_out(self, place: Place) -> None:
        (place.root / "outside").mkdir()
        result = replayed(
            place,
            RecordedFile("out", "120000", b"../outside"),
            RecordedFile("out/new", "100644", b"x"),
        )
        assert result.failure == FAILURE_COULD_NOT_RUN
        assert list((place.root / "outside").iterdir()) == []

    def test_a_link_in_place_of_the_file_is_replaced_not_followed(self, place: Place) -> None:
        target = place.root / "target"
        target.write_bytes(b"kept")
        (place.workspace / "a").symlink_to(target)
        assert replayed(place, RecordedFile("a", "100644", b"new")).ok
        assert target.read_bytes() == b"kept"
        assert not (place.workspace / "a").is_symlink()

    def test_a_folder_in_the_way_is_an_error_not_a_crash(self, place: Place) -> None:
        (place.workspace / "a/b").mkdir(parents=True)
        result = replayed(place, RecordedFile("a", "100644", b"x"))
        assert result.failure == FAILURE_COULD_NOT_RUN
        assert "'a'" in (result.error or "")

    def test_a_bad_recording_or_match_is_bad_input(self, place: Place) -> None:
        with pytest.raises(InputError, match="match"):
            replay(place, match="moon")
        with pytest.raises(InputError, match="absent"):
            ReplayDriver(place.root / "absent")
