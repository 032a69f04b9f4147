"""Where a prompt and a key may go, and where not."""

from __future__ import annotations

import pytest

from driver.backends.http.endpoint import below, endpoint


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("https://api.openai.com/v1", False),
        ("https://10.0.0.5:8443/v1", False),
        ("https://[2001:db8::1]/v1", False),
        ("https://localhost.example/v1", False),
        ("http://127.0.0.1:8080/v1", True),
        ("http://127.8.9.1/v1", True),
        ("http://[::1]:8080/v1", True),
        ("http://[::ffff:127.0.0.1]/v1", True),
        ("http://localhost:11434/v1", True),
        ("http://LOCALHOST/v1", True),
        ("https://localhost/v1", True),
    ],
)
def test_https_goes_anywhere_and_http_to_this_machine(url: str, loopback: bool) -> None:
    assert endpoint(url).loopback is loopback


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.openai.com/v1",
        "file:///etc/passwd",
        "ftp://127.0.0.1/x",
        "data:,x",
        "http://localhost.example/v1",
        "http://localhost.evil.invalid/v1",
        "http://127.0.0.1.evil.invalid/v1",
        "http://192.168.1.5:8000/v1",
        "http://api.openai.com/v1",
        "http://169.254.169.254/latest",
        "https://169.254.169.254/latest",
        "https://[fe80::1]/",
        "https://[fe80::1%25eth0]/",
        "https://[fd00:ec2::254]/",
        "https://100.100.100.200/",
        "https://[::ffff:169.254.169.254]/",
        "https://2852039166/",
        "https://0xa9fea9fe/",
        "https://169.254.43518/",
        "https://0.0.0.0/",
        "http://0.0.0.0:8000/v1",
        "https://[::]/",
        "https://224.0.0.1/",
        "https://user:word@example.org/v1",
        "https://example.org:99999/v1",
        "https://exa mple.org/v1",
        "https://example.org\\@127.0.0.1/",
        "https://ex\u00e4mple.org/v1",
        "https:///v1",
        # urllib connects to what the % stands for.
        "http://127.0.0.1%2eexample.org/v1",
        "http://127.0.0.1%25.example.org/v1",
        "https://169.254.169.254%2f/",
    ],
)
def test_nothing_is_sent_elsewhere(url: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the reasons differ
        endpoint(url)
    assert str(caught.value)


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://h/v1", "https://h/v1/chat/completions"),
        ("https://h/v1/", "https://h/v1/chat/completions"),
        ("https://h", "https://h/chat/completions"),
        ("https://h/v1?api-version=2", "https://h/v1/chat/completions?api-version=2"),
    ],
)
def test_the_path_goes_below_the_base(base: str, url: str) -> None:
    assert below(base, "chat/completions") == url


def test_what_is_shown_has_no_query() -> None:
    assert endpoint("https://h/v1?key=secret").shown == "https://h/v1"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://h/a", "https://h:443/b", True),
        ("https://h/a", "https://H/b", True),
        ("https://h/a", "https://h:8443/a", False),
        ("https://h/a", "https://g/a", False),
        ("https://localhost/a", "http://localhost/a", False),
    ],
)
def test_an_origin_is_scheme_host_and_port(one: str, other: str, same: bool) -> None:
    assert (endpoint(one).origin == endpoint(other).origin) is same


def test_the_end_of_a_password_is_not_repeated() -> None:
    with pytest.raises(ValueError, match="port") as caught:
        endpoint("https://user:hush/hush@example.org/v1")
    assert "hush" not in str(caught.value)
