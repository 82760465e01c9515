import pytest

from limbeck.errors import LimbeckError
from limbeck.protocol.recipe import Recipe


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"batch": 0},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"temperature": -1.0},
        {"momentum": -0.1},
        {"weight_decay": -1.0},
        {"final_learning_rate": -1.0},
        {"patience": 0},
        {"held_out": 1.0},
    ],
)
def test_what_cannot_be_cooked_is_reported(wrong: dict[str, float]) -> None:
    with pytest.raises(LimbeckError, match=next(iter(wrong))):
        Recipe(**wrong)  # type: ignore[arg-type]
