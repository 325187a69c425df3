"""Examples that hypothesis makes up are judged by what comes out, never by how long this machine took."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st


@given(st.just(0.25))
@settings(max_examples=1, database=None)
def test_an_example_may_take_longer_than_a_fifth_of_a_second(seconds: float) -> None:
    time.sleep(seconds)
