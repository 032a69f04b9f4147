"""A test cannot learn from what it prints to what it is run for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.interpreter import PYTHON
from tests.support.waves import Scene, item, writes

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

LOOKS = "import os\n\nprint(os.readlink('/proc/self/fd/1'))\n"


def test_the_file_that_a_test_prints_to_has_its_name_only_afterwards(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"a.txt": "base\n", "look.py": LOOKS})
    command = [*PYTHON, "look.py"]
    report, _ = scene.play(
        {"a": writes(a__txt="new\n")}, [item("a", "a.txt", command)], wave_id="w"
    )
    assert report["shipped"] == ["a"]
    folder = scene.state / "runs/w/a"
    printed = {path.name: path.read_text("utf-8") for path in folder.glob("*.out")}
    assert {"test-1.out", "baseline.out"} <= printed.keys()
    assert not [name for name, text in printed.items() if Path(name).stem in Path(text).name]
    assert not [name for name in printed if len(name) > 30]
