"""A private home: what it leads to, and the login of an agent's program in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driver.homes.login import LoginFile, give_back, lend
from driver.homes.private_home import HomeRecipe

BEFORE = {"oauth": {"accessToken": "sk-ant-oat01-old", "expiresAt": 1}, "account": "me"}
RENEWED = {"oauth": {"accessToken": "sk-ant-oat01-new", "expiresAt": 9}, "account": "me"}


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """The user's home, with a login."""
    home = tmp_path / "user"
    (home / ".agent").mkdir(parents=True)
    (home / ".agent" / "auth.json").write_text(json.dumps(BEFORE), encoding="utf-8")
    return home


def renewed(user: Path) -> LoginFile:
    return LoginFile(".agent/auth.json", user / ".agent" / "auth.json", is_renewed=True)


def test_a_home_leads_to_toolchains_and_to_what_its_set_up_installed(tmp_path: Path) -> None:
    user, prepared, home = (tmp_path / name for name in ("user", "prepared", "home"))
    (user / ".cargo" / "bin").mkdir(parents=True)
    for name in (".cargo/registry/x", ".cache/pypoetry/x", ".cache/uv/x", "tool/x", ".cargo/bin/y"):
        (prepared / name).parent.mkdir(parents=True, exist_ok=True)
        (prepared / name).touch()
    home.mkdir()
    links = ((".cargo/bin", f"{user}/.cargo/bin"), (".cache/uv", f"{user}/.cache"))
    HomeRecipe(user, links, prepared, has_own_caches=True).furnish(home, {"HOME": str(user)})
    assert (home / ".cargo" / "bin").resolve() == user / ".cargo" / "bin"
    assert (home / ".cargo" / "registry" / "x").exists()
    assert (home / ".cache" / "pypoetry" / "x").exists()
    assert (home / "tool" / "x").exists()
    assert not (home / ".cache" / "uv").exists()
    (home / ".cache" / "mine").touch()
    assert not (prepared / ".cache" / "mine").exists()


def test_what_a_set_up_left_may_be_changed_and_stays_as_it_was(tmp_path: Path) -> None:
    user, prepared, home = (tmp_path / name for name in ("user", "prepared", "home"))
    (prepared / ".config" / "tool").mkdir(parents=True)
    (prepared / ".config" / "tool" / "state").write_text("of the set-up", encoding="utf-8")
    (prepared / "link").symlink_to(".config/tool")
    (user / "tool").mkdir(parents=True)
    (prepared / ".npmrc").symlink_to(user / ".npmrc")  # as only the set-up may read it
    HomeRecipe(user, prepared=prepared).furnish(home, {"HOME": str(user)})
    (home / ".config" / "tool" / "state").write_text("of a test", encoding="utf-8")
    (home / ".config" / "tool" / "new").touch()
    assert not (home / ".npmrc").is_symlink()
    assert (home / "link").resolve() == prepared / ".config" / "tool"
    found = [path for path in prepared.rglob("*") if path.is_file()]
    assert [path.read_text(encoding="utf-8") for path in found] == ["of the set-up"]


def test_what_cannot_be_copied_whole_is_there_by_links(tmp_path: Path) -> None:
    prepared, home = tmp_path / "prepared", tmp_path / "home"
    too_deep = prepared.joinpath("tool", *["in"] * 250)
    too_deep.mkdir(parents=True)
    (too_deep / "part").touch()
    HomeRecipe(tmp_path / "user", prepared=prepared).furnish(home, {})
    assert home.joinpath("tool", *["in"] * 250, "part").exists()


def test_a_large_folder_of_a_set_up_is_new_with_links_in_it_unless_it_is_one_program(
    tmp_path: Path,
) -> None:
    prepared, home = tmp_path / "prepared", tmp_path / "home"
    for name in ("models/big/tokens", "models/locks", "app/node_modules/x"):
        (prepared / name).mkdir(parents=True)
    for place in ("models/big/tokens", "app/node_modules/x"):
        for number in range(600):
            (prepared / place / f"{number}").touch()
    HomeRecipe(tmp_path / "user", prepared=prepared).furnish(home, {})
    (home / "models" / "big" / "new").touch()
    (home / "models" / "locks" / "new").touch()
    assert (home / "models" / "big" / "tokens" / "599").exists()
    assert (home / "models" / "big" / "tokens").resolve() == prepared / "models/big/tokens"
    assert (home / "app").resolve() == prepared / "app"
    assert not [*prepared.rglob("new")]


def test_a_cache_that_the_settings_share_is_not_made_anew(tmp_path: Path) -> None:
    user, home = tmp_path / "user", tmp_path / "home"
    (user / ".cache" / "go-build").mkdir(parents=True)
    home.mkdir()
    link = ((".cache/go-build", str(user / ".cache" / "go-build")),)
    HomeRecipe(user, link, has_own_caches=True, shared=link).furnish(home, {"HOME": str(user)})
    (home / ".cache" / "go-build" / "x").touch()
    assert (user / ".cache" / "go-build" / "x").exists()


def test_gradle_may_write_beside_its_distributions_and_reads_a_cache_of_others(
    tmp_path: Path,
) -> None:
    user, prepared, home = (tmp_path / name for name in ("user", "prepared", "home"))
    for where, name in ((user, "gradle-7"), (prepared, "gradle-8")):
        (where / ".gradle" / "wrapper" / "dists" / name / "x1" / name).mkdir(parents=True)
        (where / ".gradle" / "wrapper" / "dists" / name / "x1" / f"{name}.zip.ok").touch()
        (where / ".gradle" / "caches" / "modules-2").mkdir(parents=True)
    links = tuple((f".gradle/{one}", f"{user}/.gradle/{one}") for one in ("caches", "wrapper"))
    recipe = HomeRecipe(user, links, prepared, has_own_caches=True)
    recipe.furnish(home, {"HOME": str(user)})
    dists = home / ".gradle" / "wrapper" / "dists"
    for name in ("gradle-7", "gradle-8"):
        assert (dists / name / "x1" / name).is_dir()
        (dists / name / "x1" / f"{name}.zip.lck").touch()  # as its starter does
    assert not [*user.rglob("*.lck"), *prepared.rglob("*.lck")]
    assert not (home / ".gradle" / "caches").exists()
    found = recipe.environment({}, home, tmp_path, None)
    assert found["GRADLE_RO_DEP_CACHE"] == str(prepared / ".gradle" / "caches")
    of_a_set_up = HomeRecipe(user, links)
    of_a_set_up.furnish(tmp_path / "other", {"HOME": str(user)})
    assert (tmp_path / "other" / ".gradle" / "wrapper").is_symlink()
    assert "GRADLE_RO_DEP_CACHE" not in of_a_set_up.environment({}, home, tmp_path, None)


def test_a_setting_that_changed_during_the_wave_is_as_it_was(tmp_path: Path) -> None:
    user, view, home = (tmp_path / name for name in ("user", "view", "home"))
    for folder, text in ((user, "now"), (view, "before")):
        folder.mkdir()
        (folder / ".mypy.ini").write_text(text, encoding="utf-8")
    (user / ".flake8").write_text("same", encoding="utf-8")
    (view / ".flake8").symlink_to(user / ".flake8")
    home.mkdir()
    links = tuple((name, f"{user}/{name}") for name in (".mypy.ini", ".flake8"))
    HomeRecipe(user, links).furnish(home, {"HOME": str(view)})
    assert (home / ".mypy.ini").read_text(encoding="utf-8") == "before"
    assert (home / ".flake8").resolve() == user / ".flake8"


def test_no_link_is_made_below_a_link(tmp_path: Path) -> None:
    (tmp_path / "user" / "go").mkdir(parents=True)
    home = tmp_path / "home"
    home.mkdir()
    links = (("go", f"{tmp_path}/user/go"), ("go/pkg", f"{tmp_path}/elsewhere"))
    HomeRecipe(tmp_path / "user", links).furnish(home, {})
    assert (home / "go").is_symlink()
    assert not (tmp_path / "user" / "go" / "pkg").is_symlink()


def test_variables_lead_to_the_home_and_to_toolchains_in_reach(tmp_path: Path) -> None:
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    given = {
        "HOME": "/root",
        "XDG_CONFIG_HOME": "/root/.config",
        "CODEX_HOME": "/root/.codex",
        "JAVA_HOME": "/opt/java",
        "CARGO_HOME": "/repo/.cargo",
        "MAVEN_OPTS": "-Xmx1g",
    }
    recipe = HomeRecipe(Path("/root"))
    found = recipe.environment(given, home, temporary, [Path("/opt")])
    assert found["TMPDIR"] == found["TEMP"] == str(temporary)
    assert found["JAVA_HOME"] == "/opt/java"
    assert not {"CARGO_HOME", "XDG_CONFIG_HOME", "CODEX_HOME"} & found.keys()
    places = f"-Duser.home={home} -Djava.io.tmpdir={temporary}"
    assert found["MAVEN_OPTS"] == f"-Xmx1g {places}"
    assert found["GRADLE_OPTS"] == places
    assert recipe.environment(given, home, temporary, None)["CARGO_HOME"] == "/repo/.cargo"
    assert "MAVEN_OPTS" not in recipe.environment({}, tmp_path / "a home", temporary, None)


def test_a_login_is_a_copy_that_nobody_else_may_read(user: Path, tmp_path: Path) -> None:
    folder = LoginFile(".agent", user / ".agent")
    lend([folder, LoginFile("missing", user / "missing")], tmp_path / "a")
    lent = lend([renewed(user)], tmp_path / "b")
    copy = tmp_path / "b" / ".agent" / "auth.json"
    assert [*lent] == [renewed(user)]
    assert json.loads((tmp_path / "a" / ".agent" / "auth.json").read_bytes()) == BEFORE
    assert copy.stat().st_mode & 0o777 == 0o600
    copy.write_text("{}", encoding="utf-8")
    assert json.loads((user / ".agent" / "auth.json").read_bytes()) == BEFORE


def test_of_a_state_file_only_the_login_is_copied(user: Path, tmp_path: Path) -> None:
    state = user / ".agent.json"
    state.write_text('{"account": "me", "projects": {"/secret": 1}}', encoding="utf-8")
    lend([LoginFile(".agent.json", state, keep=("account", "key"))], tmp_path)
    assert json.loads((tmp_path / ".agent.json").read_bytes()) == {"account": "me"}


def test_a_renewed_login_is_given_back(user: Path, tmp_path: Path) -> None:
    lent = lend([renewed(user)], tmp_path)
    assert give_back(lent, tmp_path) == ()
    (tmp_path / ".agent" / "auth.json").write_text(json.dumps(RENEWED), encoding="utf-8")
    assert give_back(lent, tmp_path) == (user / ".agent" / "auth.json",)
    assert json.loads((user / ".agent" / "auth.json").read_bytes()) == RENEWED


@pytest.mark.parametrize("name", ["enterpriseUrl", "host", "account"])
def test_a_login_that_leads_to_another_server_is_not_given_back(
    user: Path, tmp_path: Path, name: str
) -> None:
    """The next agent would send the user's token there."""
    ours = {"enterpriseUrl": "https://git.example.com", "host": "ghe.corp.io", "account": "me"}
    theirs = {"enterpriseUrl": "https://evil.example", "host": "ghe.corp.zz", "account": "you"}
    place = user / ".agent" / "auth.json"
    place.write_text(json.dumps({**ours, "token": "sk-ant-oat01-old"}), encoding="utf-8")
    lent = lend([renewed(user)], tmp_path)
    swapped = {**ours, "token": "sk-ant-oat01-new", name: theirs[name]}
    (tmp_path / ".agent" / "auth.json").write_text(json.dumps(swapped), encoding="utf-8")
    assert give_back(lent, tmp_path) == ()


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "garbage", "{}", '{"oauth": 1, "account": "me"}'),
        json.dumps({**RENEWED, "hooks": {}}),
        json.dumps({**RENEWED, "account": "other"}),
        json.dumps({**RENEWED, "oauth": {"accessToken": "key", "expiresAt": 9}}),
    ],
)
def test_what_is_no_renewal_is_not_given_back(user: Path, tmp_path: Path, text: str) -> None:
    lent = lend([renewed(user)], tmp_path)
    (tmp_path / ".agent" / "auth.json").write_text(text, encoding="utf-8")
    assert give_back(lent, tmp_path) == ()
    assert json.loads((user / ".agent" / "auth.json").read_bytes()) == BEFORE


def test_a_link_is_not_given_back_nor_anything_over_a_newer_login(
    user: Path, tmp_path: Path
) -> None:
    mine, theirs = tmp_path / ".agent" / "auth.json", user / ".agent" / "auth.json"
    lent = lend([renewed(user)], tmp_path)
    (tmp_path / "elsewhere").write_text(json.dumps(RENEWED), encoding="utf-8")
    mine.unlink()
    mine.symlink_to(tmp_path / "elsewhere")
    assert give_back(lent, tmp_path) == ()
    mine.unlink()
    mine.write_text(json.dumps(RENEWED), encoding="utf-8")
    theirs.write_text('{"newer": 1}', encoding="utf-8")
    assert give_back(lent, tmp_path) == ()
    assert theirs.read_text(encoding="utf-8") == '{"newer": 1}'
