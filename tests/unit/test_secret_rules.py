"""What counts as a secret in a text, and what only looks like one."""

from __future__ import annotations

import base64
import sysconfig
from pathlib import Path

import pytest

from tests.support.secrets import aws_key, github, noise, pem
from tools.secret_rules.placeholders import is_placeholder, mask_secret
from tools.secret_rules.search import (
    PRAGMA,
    holds_pragma,
    is_env_file,
    scan_blob,
    scan_content,
    should_skip_file,
)

PASSWORD = noise(14, 5)
SK = "s" + "k-"


def rules(text: str, path: str | None = None) -> list[str]:
    return [match.rule for match in scan_content(text, path) if match.is_fatal]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("pem_private_key", pem()),
        ("pem_private_key", pem("")),
        ("pem_private_key", pem("EC ")),
        ("pem_private_key", pem("OPENSSH ")),
        ("pem_private_key", pem("ENCRYPTED ")),
        ("pem_private_key", pem().replace("\n", "\r\n")),
        ("pem_private_key", "key = '" + pem().replace("\n", "\\n") + "'"),
        ("pem_private_key", '{"key": "' + pem().replace("\n", "\\\\n") + '"}'),
        ("pem_private_key", pem().split("\n")[0]),
        ("pem_private_key", "tls.key: " + base64.b64encode(pem("").encode()).decode()),
        ("pem_private_key", "tls.key: " + base64.b64encode(pem("RSA ").encode()).decode()),
        ("pem_private_key", "tls.key: " + base64.b64encode(pem("EC ").encode()).decode()),
        ("aws_access_key", f"id = {aws_key()}"),
        ("aws_access_key", f'"{aws_key()}",'),
        ("aws_access_key", "AS" + "IA" + aws_key()[4:]),
        ("aws_secret_pattern", f"aws_secret_access_key = {noise(40)}"),
        ("aws_secret_pattern", f'AWS_SECRET_KEY: "{noise(40, chars="abcDEF/+123")}"'),
        ("github_token", github()),
        ("github_token", f"https://x-access-token:{github()}@github.com/o/r"),
        ("github_token", "gh" + "s_" + noise(36)),
        ("github_token", "github" + "_pat_" + noise(82)),
        ("slack_token", "xox" + "b-" + "123456789012-" + noise(24)),
        ("slack_token", "xap" + "p-1-" + noise(30)),
        ("slack_token", "https://hooks.slack" + ".com/services/T0000AAAA/B0000BBBB/" + noise(24)),
        ("openai_anthropic_key", SK + noise(48)),
        ("openai_anthropic_key", SK + "ant-api03-" + noise(90)),
        ("openai_anthropic_key", SK + "proj-" + noise(60)),
        ("provider_token", "AI" + "za" + noise(35)),
        ("provider_token", "glp" + "at-" + noise(20)),
        ("provider_token", "np" + "m_" + noise(36)),
        ("provider_token", "sk" + "_live_" + noise(24)),
        ("provider_token", "hf" + "_" + noise(34)),
        ("provider_token", "SG" + "." + noise(22) + "." + noise(43)),
        ("provider_token", "AccountKey" + "=" + noise(86) + "=="),
        ("connection_string", f"postgres://app:{PASSWORD}@db.internal:5432/shop"),
        ("connection_string", f"url = 'redis://:{PASSWORD}@cache'"),
        ("connection_string", f"amqps://u:{PASSWORD}%21@10.0.0.1/v"),
        ("connection_string", f"Server=db;Database=x;User Id=sa;Password={PASSWORD};"),
        ("generic_secret_assignment", f'api_key = "{noise(24)}"'),
        ("generic_secret_assignment", f"password: '{PASSWORD}'"),
        ("generic_secret_assignment", f'{{"clientSecret": "{noise(30)}"}}'),
        ("generic_secret_assignment", f"const authToken = `{noise(30)}`;"),
        ("generic_secret_assignment", f'self.db_password="{PASSWORD}"'),
        ("generic_secret_assignment", f'config["secret_key"] = b"{noise(30)}"'),
        ("generic_secret_assignment", f'TOKEN: str = "{noise(30)}"'),
        ("generic_secret_assignment", f'"secret" => "{noise(20)}"'),
        ("generic_secret_assignment", f"Authorization: Bearer {noise(40)}"),
        ("generic_secret_assignment", f"export DEPLOY_TOKEN={noise(30)}"),
        ("env_access", f'os.environ.get("API_KEY", "{noise(24)}")'),
        ("env_access", f"process.env.API_TOKEN || '{noise(24)}'"),
        ("env_access", "curl -u ${API_TOKEN:-" + noise(24) + "}"),
    ],
)
def test_a_secret_is_found_at_its_line(rule: str, text: str) -> None:
    found = scan_content(f"first\n{text}\nlast")
    assert (2, rule) in [(match.line, match.rule) for match in found]


@pytest.mark.parametrize(
    "text",
    [
        "password = input()",
        'password = os.environ["PASSWORD"]',
        'api_key = "your-api-key-here"',
        'api_key = "YOUR_API_KEY"',
        'token = "<token>"',
        'token = "${TOKEN}"',
        'token = "{{ secrets.TOKEN }}"',
        'password = "changeme123"',
        'password = "xxxxxxxxxxxx"',
        'secret = "a-word-and-another"',
        'SECRET_NAME = "projects/shop/secrets"',
        'token_type = "urn:ietf:params:oauth"',
        'tokens = ["alpha", "beta", "gamma"]',
        'password_field = "user.password1"',
        'key = "OP_ASYNC_GENERATOR"',
        "postgres://user:password@localhost/db",
        "https://user:***@host/x.git",
        "http://[::1]:8080/a@b",
        "git@github.com:owner/repo.git",
        "AK" + "IA" + "IOSFODNN7" + "EXAMPLE",
        "gh" + "p_" + "x" * 36,
        "class=" + SK + "folding-cube-with-a-long-name",
        'if "' + pem().split("\n")[0] + '" in text:',
        "-----BEGIN PUBLIC KEY-----\n" + noise(64),
        "-----BEGIN CERTIFICATE-----\n" + noise(64),
        'os.environ.get("API_KEY", "")',
        'os.environ.get("PATH", "/usr/local/bin")',
        "sha256:" + noise(64, chars="0123456789abcdef"),
        '"integrity": "sha512-' + noise(86) + '=="',
    ],
)
def test_what_stands_for_a_secret_or_is_none_is_not_found(text: str) -> None:
    assert rules(text) == []


@pytest.mark.parametrize(
    ("path", "text", "rule"),
    [
        (".env", f"DB_PASSWORD={PASSWORD}", "env_assignment"),
        ("deploy/.env.production", f"export API_KEY='{noise(20)}'", "env_assignment"),
        (".env", "SECRET=word-word", "env_assignment"),
        ("prod.env", f"TOKEN = {noise(9)}", "env_assignment"),
        ("values.yaml", f"password: {PASSWORD}", "generic_secret_assignment"),
        ("setup.cfg", f"api_key = {noise(20)}  # mine", "generic_secret_assignment"),
        ("Dockerfile", f"ENV API_TOKEN={noise(20)}", "generic_secret_assignment"),
        ("x.sh", f"db_password={PASSWORD}", "generic_secret_assignment"),
    ],
)
def test_values_without_quotes_are_found_where_files_are_written_so(
    path: str, text: str, rule: str
) -> None:
    assert rules(text, path) == [rule]


def test_a_sample_of_an_env_file_is_judged_as_any_text() -> None:
    assert rules("DB_PASSWORD=fill-this-in", ".env.example") == []
    assert [is_env_file(p) for p in (".env", "a/.env.local", "b.env", ".envrc")] == [True] * 4
    assert [is_env_file(p) for p in (".env.sample", "env", "env.py", "x.env.dist")] == [False] * 4


def test_the_pragma_softens_only_what_code_about_secrets_is_full_of() -> None:
    text = f'# {PRAGMA}\npassword = "{PASSWORD}"\nos.getenv("A_KEY", "{noise(20)}")\n{github()}\n'
    assert rules(text) == ["github_token"]
    found = scan_content(text)
    assert [(match.line, match.rule) for match in found if not match.is_fatal] == [
        (2, "generic_secret_assignment"),
        (3, "env_access"),
    ]
    assert not holds_pragma("\n" * 10 + PRAGMA)
    assert holds_pragma("\n" * 9 + PRAGMA)
    assert len(rules("\n" * 10 + text)) == 3


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: text.encode("utf-16"),
        lambda text: text.encode("utf-32"),
        lambda text: b"\0\1\2" + text.encode(),
        lambda text: b"\0\1\2" + text.encode("utf-16-le"),
        lambda text: b"\0\1\2\3" + text.encode("utf-16-be"),
        lambda text: b"\xff\xfe\xfd" + text.encode("latin-1"),
        lambda text: "\ufeff".encode() + text.encode(),
    ],
)
def test_a_token_is_found_however_the_file_is_encoded(encode: object) -> None:
    assert callable(encode)
    found = scan_blob("data.bin", encode(f"x = {github()} "))
    assert [match.rule for match in found] == ["github_token"]


def test_a_binary_file_is_judged_by_fatal_rules_only() -> None:
    text = f'password = "{PASSWORD}" {aws_key()}'
    assert len(scan_blob("a.txt", text.encode())) == 2
    assert [m.rule for m in scan_blob("a.bin", b"\0" + text.encode())] == ["aws_access_key"]


def test_the_name_of_a_file_that_holds_keys_is_enough() -> None:
    for name in ("a/cert.p12", "cert.PFX", "id_rsa", "d/id_rsa.old", ".credentials.json"):
        (found,) = scan_blob(name, b"\0binary")
        assert found == (0, "credential_filename", name.rpartition("/")[2], True)
    for name in ("id_rsa.pub", "token.py", "cert.pem", "p12", "credentials.md", "my_id_rsa"):
        assert scan_blob(name, b"text") == []
    (named,) = scan_blob("id_rsa", f"# {PRAGMA}".encode())
    assert named.is_fatal


def test_a_secret_that_several_rules_know_is_told_once() -> None:
    assert rules(f'token = "{github()}"') == ["github_token"]


def test_what_is_shown_of_a_secret_is_of_no_use() -> None:
    for secret in (github(), PASSWORD, pem(), noise(8), noise(400)):
        shown = mask_secret(secret)
        assert secret not in shown
        assert secret[4:] not in shown
        assert "\n" not in shown
        assert (
            not any(secret[n : n + 6] in shown for n in range(len(secret) - 5)) or secret == pem()
        )
    assert noise(12)[:3] not in mask_secret(noise(12))


@pytest.mark.parametrize(
    ("value", "placeholder"),
    [
        ("changeme", True),
        ("my-secret", True),
        ("aaaaaaaa", True),
        ("example-key", True),
        ("%(password)s", True),
        (noise(20), False),
        ("pa55w0rd!x", False),
    ],
)
def test_placeholders(value: str, placeholder: bool) -> None:
    assert is_placeholder(value) is placeholder


def test_a_walk_passes_over_caches_and_gits_own_folder() -> None:
    assert all(map(should_skip_file, (".git/config", "a/node_modules/b.js", "__pycache__/x")))
    assert should_skip_file("a/b.pyc")
    assert should_skip_file(Path("a") / "b.pyo")
    assert not any(map(should_skip_file, ("a.py", ".github/workflows/a.yml", ".gitignore")))


def test_long_lines_and_large_texts_are_no_trap() -> None:
    for text in ("a" * 400_000, "secret=" * 60_000, "://a:" * 60_000, '"token": ' * 40_000):
        scan_content(text)


@pytest.mark.more
def test_the_standard_library_is_clean_but_for_passwords_in_addresses() -> None:
    library = Path(sysconfig.get_path("stdlib"))
    found = [
        (path.name, match.rule)
        for path in sorted(library.glob("*.py"))
        for match in scan_blob(path.name, path.read_bytes())
    ]
    assert found == []
