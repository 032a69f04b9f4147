from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.support.beside import beside, beside_each_other

MET = threading.Barrier(2)


@pytest.mark.parametrize("number", [1, 2])
@beside
def test_tests_that_are_marked_run_at_the_same_time_each_in_a_folder_of_its_own(
    folder: Path, number: int
) -> None:
    (folder / str(number)).touch()
    MET.wait(60)
    assert [path.name for path in folder.iterdir()] == [str(number)]


@pytest.mark.xfail(raises=ZeroDivisionError)
@beside
def test_what_one_raises_is_told_by_its_own_test_and_by_no_other(folder: Path) -> None:
    assert 1 / 0


@pytest.mark.skipif(True, reason="played all the same it would keep all others waiting")
@beside
def test_who_is_skipped_is_not_played(folder: Path) -> None:
    threading.Event().wait()


def test_who_asks_gets_the_answer_or_the_error_of_that_scenario(tmp_path: Path) -> None:
    def play(folder: Path, key: int) -> str:
        if key == 2:
            raise ValueError("the second")
        return f"{key} in {folder.name}"

    told = beside_each_other(play, [1, 2, 3], tmp_path)
    assert [told[1].result(), told[3].result()] == ["1 in 0", "3 in 2"]
    with pytest.raises(ValueError, match="the second"):
        told[2].result()
