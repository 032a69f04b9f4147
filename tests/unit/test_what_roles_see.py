"""The doctor's lines about what each role sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.diagnostics.roles import check_caches, check_roles
from driver.terminal.check_result import Level
from tools.settings.load import Settings, load


def settings_of(folder: Path, text: str) -> Settings:
    (folder / "home" / ".claude").mkdir(parents=True)
    (folder / "home" / ".claude" / ".credentials.json").write_text("{}", encoding="utf-8")
    (folder / "tidegate.toml").write_text(text, encoding="utf-8")
    environ = {
        "PATH": "/bin",
        "HOME": str(folder / "home"),
        "ANTHROPIC_API_KEY": "k",
        "SSH_AUTH_SOCK": "/s",
        "APP_URL": "u",
    }
    return load(project=folder, environ=environ)


def test_only_the_agent_sees_its_key_and_its_login(tmp_path: Path) -> None:
    text = (
        '[sandbox]\nlevel = "auto"\n[verify]\nenv = ["APP_URL"]\n[sandbox.test]\nnetwork = "none"\n'
    )
    found = {one.name: one.detail for one in check_roles(settings_of(tmp_path, text))}
    assert [*found] == ["sees.agent", "sees.test", "sees.setup", "sees.hook"]
    agent = "variables ANTHROPIC_API_KEY, HOME, PATH; network host; a private home"
    assert found["sees.agent"] == f"{agent}; copies of .claude/.credentials.json"
    assert found["sees.test"] == "variables APP_URL, HOME, PATH; network none; a private home"
    assert found["sees.hook"].startswith("variables APP_URL, HOME, PATH; network host")


def test_ones_own_home_is_a_named_exception(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, '[sandbox]\nlevel = "auto"\nhome = "host"\n')
    found = [*check_roles(settings)]
    assert {one.level for one in found} == {Level.WARN}
    assert all("your own home" in one.detail for one in found)


@pytest.mark.parametrize(
    ("config", "asks_for"),
    [
        ("", "[sandbox.agent] and [sandbox.test]"),
        ('[sandbox.test]\nwritable = ["~/.cache"]\n', "[sandbox.agent]"),
        ('[sandbox]\nhome = "host"\n', ""),
        ('[sandbox]\nlevel = "limits"\n', ""),
    ],
)
def test_a_cache_that_commands_inside_do_not_share_is_told(
    tmp_path: Path, config: str, asks_for: str
) -> None:
    settings = settings_of(tmp_path, config)
    assert [*check_caches(settings, tmp_path)] == []  # no project of Go
    (tmp_path / "go.mod").write_text("module x\n", encoding="utf-8")
    assert [*check_caches(settings, tmp_path)] == []  # nothing to share
    (tmp_path / "home" / ".cache" / "go-build").mkdir(parents=True)
    found = [*check_caches(settings, tmp_path)]
    assert [one.level for one in found] == [Level.WARN] * bool(asks_for)
    assert all(f'writable = ["~/.cache/go-build"] in {asks_for},' in one.remedy for one in found)
