from hypothesis import given
from hypothesis import strategies as st

from limbeck.protocol.streams import stream

purposes = st.lists(st.one_of(st.text(max_size=5), st.integers(0, 100)), min_size=1, max_size=3).map(tuple)


@given(st.integers(0, 2**32), purposes)
def test_a_purpose_always_has_the_same_stream(seed: int, purpose: tuple[str | int, ...]) -> None:
    assert stream(seed, *purpose).integers(2**62) == stream(seed, *purpose).integers(2**62)


def test_different_purposes_have_different_streams() -> None:
    firsts = [
        stream(seed, *purpose).integers(2**62)
        for seed in (0, 1)
        for purpose in (("server", 0), ("server", 1), ("party", 0, 0), ("party", 0, 1), ("party", 1, 0), ("split",))
    ]
    assert len(set(firsts)) == len(firsts)
