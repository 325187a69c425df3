"""Amounts as people write them, and back."""

from typing import Any

import pytest

from hostler.base.errors import HostlerError
from hostler.cli.quantities import byte_count, cpu_millis, seconds, shown_bytes, shown_cpu, shown_seconds


@pytest.mark.parametrize(
    ("read", "text", "amount"),
    [
        (cpu_millis, "2", 2000),
        (cpu_millis, "0.5", 500),
        (cpu_millis, "500m", 500),
        (cpu_millis, 1.5, 1500),
        (cpu_millis, 0, 0),
        (byte_count, "4GiB", 4 << 30),
        (byte_count, "4Gi", 4 << 30),
        (byte_count, "1.5 GiB", 3 << 29),
        (byte_count, "1G", 10**9),
        (byte_count, "1KB", 1000),
        (byte_count, "7B", 7),
        (byte_count, 4096, 4096),
        (seconds, "90", 90),
        (seconds, "90s", 90),
        (seconds, "1h30m", 5400),
        (seconds, "2d", 172_800),
        (seconds, 5, 5),
    ],
)
def test_what_people_write(read: Any, text: Any, amount: int) -> None:
    assert read(text) == amount


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (cpu_millis, "2 cores"),
        (cpu_millis, "-1"),
        (cpu_millis, "0.0001"),
        (cpu_millis, "1e3"),
        (cpu_millis, True),
        (byte_count, "4g"),
        (byte_count, "4GIB"),
        (byte_count, "0.1B"),
        (byte_count, "1" * 30),
        (byte_count, "٤GiB"),
        (byte_count, ""),
        (seconds, "30m1h"),
        (seconds, "1.5h"),
        (seconds, "soon"),
        (seconds, ""),
        (seconds, "1\n"),
    ],
)
def test_what_is_no_amount_is_one_sentence(read: Any, text: Any) -> None:
    if text == "1\n":
        assert read(text) == 1  # a line's end is no part of what was written
        return
    with pytest.raises(HostlerError) as failed:
        read(text)
    assert failed.value.code == "invalid_request"


def test_what_people_read() -> None:
    sizes = (0, 512, 1536, 1 << 20, 5 << 30, 1 << 50)
    assert [shown_bytes(size) for size in sizes] == ["0 B", "512 B", "1.5 KiB", "1 MiB", "5 GiB", "1024 TiB"]
    assert [shown_cpu(millis) for millis in (500, 1000, 2500)] == ["0.5", "1", "2.5"]
    spans = (0, 59_000, 65_000, 3_600_000, 90_061_000, -5)
    assert [shown_seconds(ms) for ms in spans] == ["0s", "59s", "1m5s", "1h", "1d1h", "0s"]
