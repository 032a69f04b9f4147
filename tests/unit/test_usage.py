"""What a program may say of its use, and what is not believed."""

from __future__ import annotations

import pytest

from driver.backend_api.driver import Usage
from driver.backend_api.usage import MAX_USAGE_BYTES, NOTHING_SPENT, parse_usage, total_of


@pytest.mark.parametrize(
    ("content", "usage"),
    [
        (b'{"input_tokens": 1, "output_tokens": 2, "cost_usd": 0.5}', Usage(1, 2, 0.5)),
        (b'{"input_tokens": 0, "output_tokens": 0, "cost_usd": 0}', Usage(0, 0, 0.0)),
        (b'{"input_tokens": null, "output_tokens": 2}', Usage(None, 2, None)),
        (b'{"requests": 3}', Usage()),
    ],
)
def test_known_numbers_are_kept_and_missing_ones_are_unknown(content: bytes, usage: Usage) -> None:
    assert parse_usage(content) == usage


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"12",
        b'{"input_tokens": 5, "input_tokens": 1}',
        b"{",
        b"\xff\xfe",
        b'{"input_tokens": -1}',
        b'{"input_tokens": true}',
        b'{"input_tokens": 1.0}',
        b'{"output_tokens": "12"}',
        b'{"cost_usd": NaN}',
        b'{"cost_usd": Infinity}',
        b'{"cost_usd": 1e999}',
        b'{"cost_usd": -0.01}',
        b'{"cost_usd": false}',
        b'{"cost_usd": ' + b"9" * 400 + b"}",
        b'{"input_tokens": ' + b"9" * 5000 + b"}",
        b'{"input_tokens": ' + b"9" * 4300 + b"}",
        b'{"input_tokens": 1000000000000}',
        b'{"cost_usd": 1e12}',
        b"[" * 50_000,
        b'{"x": "' + b"y" * MAX_USAGE_BYTES + b'"}',
    ],
)
def test_a_malformed_value_is_an_error_never_zero(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_usage(content)


@pytest.mark.parametrize(
    ("first", "second", "sum_"),
    [
        (Usage(1, 2, 0.5), Usage(10, 20, 0.25), Usage(11, 22, 0.75)),
        (Usage(1, 2, 0.5), Usage(), Usage(least_tokens=3, least_usd=0.5)),
        (Usage(), Usage(1, 2, 0.5), Usage(least_tokens=3, least_usd=0.5)),
        (Usage(1, 2), Usage(1, 2, 0.5), Usage(2, 4, least_usd=0.5)),
        (NOTHING_SPENT, Usage(1, 2, 0.5), Usage(1, 2, 0.5)),
        (NOTHING_SPENT, Usage(), Usage()),
        (NOTHING_SPENT, Usage(undivided_tokens=7), Usage(undivided_tokens=7)),
        (Usage(undivided_tokens=3), Usage(undivided_tokens=7), Usage(undivided_tokens=10)),
        (Usage(undivided_tokens=3), Usage(1, 2, 0.5), Usage(undivided_tokens=6, least_usd=0.5)),
    ],
)
def test_use_is_added_up_and_unknown_stays_unknown(
    first: Usage, second: Usage, sum_: Usage
) -> None:
    assert total_of([first, second]) == sum_
