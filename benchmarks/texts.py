"""Texts as numbers, for docs/studies/skew.md: tf-idf, cut to 64 columns by a singular value decomposition.

python benchmarks/texts.py OUT      # from ag_news.npz and sst2.npz in LIMBECK_DATA: ag_news64.npz and sst264.npz
"""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline


def texts(arrays: Any, part: str) -> list[str]:
    """A set's texts lie one after the other; `ends` says where each ends."""
    data, ends = arrays[f"text_{part}.bytes"].tobytes(), arrays[f"text_{part}.ends"]
    return [data[a:b].decode("utf8", "replace") for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def main(out: Path) -> None:
    out.mkdir(exist_ok=True)
    for name in ("ag_news", "sst2"):
        arrays = np.load(Path(os.environ["LIMBECK_DATA"]) / f"{name}.npz")
        columns = make_pipeline(TfidfVectorizer(min_df=5, sublinear_tf=True), TruncatedSVD(64, random_state=0))
        train = columns.fit_transform(texts(arrays, "train")).astype(np.float32)
        test = columns.transform(texts(arrays, "test")).astype(np.float32)
        labels = {"y_train": arrays["y_train"], "y_test": arrays["y_test"]}
        np.savez(out / f"{name}64.npz", x_train=train, x_test=test, **labels)
        print(f"{name}64: {len(train)} and {len(test)} rows")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
