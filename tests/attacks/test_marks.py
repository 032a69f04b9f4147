"""Code that behaves only where a wave tests it, told by the environment of the test."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support.beside import beside
from tests.support.interpreter import PYTHON
from tests.support.waves import Scene, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")


@beside
def test_code_that_is_right_only_beside_a_name_of_ours_is_red(folder: Path) -> None:
    scene = Scene(folder, {"a.py": "print('bad')\n"})
    cheat = "import os\nprint('good' if 'TIDEGATE' in str(sorted(os.environ)) else 'bad')\n"
    command = f"{' '.join(PYTHON)} a.py | grep -q good"
    report, _ = scene.play({"a": writes(a__py=cheat)}, [item("a", "a.py", command, repairCap=0)])
    assert verdicts(report) == {"a": "failed"}


@pytest.mark.more
@beside
def test_no_variable_of_one_run_is_found_again_in_another(folder: Path) -> None:
    scene = Scene(folder, {"a.txt": "bad\n"})
    seen = folder / "seen"
    seen.mkdir()
    where = f"open('{seen}/' + uuid.uuid4().hex, 'w')"
    tell = f"import json, os, uuid; json.dump({{**os.environ}}, {where})"
    command = f'{" ".join(PYTHON)} -c "{tell}" && grep -q good a.txt'
    report, _ = scene.play({"a": writes(a__txt="good\n")}, [item("a", "a.txt", command)])
    assert verdicts(report) == {"a": "verified"}
    found = [json.loads(path.read_text()) for path in seen.iterdir()]
    assert len(found) >= 2
    usual = {
        *scene.environ,
        "PYTHONDONTWRITEBYTECODE",
        "PYTEST_ADDOPTS",
        "PWD",
        "SHLVL",
        "_",
        "OLDPWD",
        "TMP",
        "TEMP",
        "MAVEN_OPTS",
        "GRADLE_OPTS",
        "GRADLE_USER_HOME",
    }
    names = [name for one in found for name in {*one} - usual]
    assert len(names) == len(set(names)) == len(found)
