"""Files of feature maps: the map comes back as it was, and a file that is none is named."""

from pathlib import Path

import numpy as np
import pytest

from limbeck.errors import LimbeckError
from limbeck.features.files import read_map, source_of_map, write_map
from limbeck.features.map import FeatureMap

X = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)


def test_a_map_comes_back_with_its_hash_and_its_vectors(tmp_path: Path) -> None:
    features = FeatureMap.fit("fourier", X, 0, 12)
    write_map(tmp_path / "map", features, "seed 0")
    again = read_map(tmp_path / "map", (4,))
    assert again.hash == features.hash
    assert (again.vectors(X) == features.vectors(X)).all()
    assert source_of_map(tmp_path / "map") == "seed 0"


@pytest.mark.parametrize("content", [b"", b"not a map", b"\x02\0\0\0\0\0\0\0{}"])
def test_another_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "map").write_bytes(content)
    with pytest.raises(LimbeckError, match="map: not a feature map"):
        read_map(tmp_path / "map", (4,))
    assert source_of_map(tmp_path / "map") == ""


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(LimbeckError, match=r"cannot read .*none"):
        read_map(tmp_path / "none", (4,))
