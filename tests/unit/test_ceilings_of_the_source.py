"""A ceiling in the source's config that is not understood stops; it is not left off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from state_store.documents.errors import InputError
from tools.settings.load import load


def loaded(folder: Path, limits: Any) -> int | None:
    text = json.dumps({"limits": limits, "maxAgents": 5})
    (folder / "aesop.config.json").write_text(text, encoding="utf-8")
    return load(project=folder, environ={"HOME": str(folder)}, cwd=folder).limits.max_wave_tokens


@pytest.mark.parametrize("limits", [[], "", 0, False, "5", [5]], ids=repr)
def test_limits_that_are_no_table_are_refused(tmp_path: Path, limits: Any) -> None:
    with pytest.raises(InputError, match="limits must be an object"):
        loaded(tmp_path, limits)


@pytest.mark.parametrize("name", ["max_wave_tokns", "MAX_WAVE_TOKENS", "max-wave-tokens"])
def test_a_misspelt_ceiling_is_no_ceiling_left_off(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"{name} is no known key; did you mean .*tokens"):
        loaded(tmp_path, {name: 5})


def test_what_belongs_to_other_tools_is_not_judged(tmp_path: Path) -> None:
    assert loaded(tmp_path, {"max_wave_tokens": 7, "notes": "x", "max_subagents": 3}) == 7
    assert loaded(tmp_path, None) is None
