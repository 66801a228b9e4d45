"""Numbers inside sentences."""

import pytest

from profiling.wording import activities, counted, listed, microseconds, share, size


@pytest.mark.parametrize(
    "text, expected",
    [
        (counted(1, "kernel"), "1 kernel"),
        (counted(0, "kernel"), "0 kernels"),
        (counted(1.0, "launch", "launches"), "1 launch"),
        (counted(2, "launch", "launches"), "2 launches"),
        (counted(6.67, "kernel"), "6.7 kernels"),
        (counted(12345, "launch", "launches"), "12,345 launches"),
        (activities(3), "3 GPU activities"),
        (microseconds(1064.6), "1,064.6 µs"),
        (size(4), "4 B"),
        (size(49152), "49,152 B (48 KiB)"),
        (size(268435456), "268,435,456 B (256 MiB)"),
        (share(127.5, 1064.6), "12.0 %"),
        (share(1, 0), "0 %"),
        (listed([]), ""),
        (listed(["ones"]), "ones"),
        (listed(["ones", "tril", "where"]), "ones, tril and where"),
    ],
)
def test_wording(text: str, expected: str) -> None:
    assert text == expected
