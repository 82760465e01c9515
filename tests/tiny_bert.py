"""A tiny random sentence encoder, as a folder in the form of the package transformers, and torch's own version of it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.numpy import save_file
from torch import nn

from limbeck.protocol.rows import Array
from text_sets import BAD, GOOD, OTHER

PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", *GOOD, *BAD, *OTHER, "##s", "!")
HIDDEN, HEADS, MIDDLE, POSITIONS = 16, 4, 32, 40
LAYER = {  # names in BERT of what torch's layer calls otherwise
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "norm1",
    "intermediate.dense": "linear1",
    "output.dense": "linear2",
    "output.LayerNorm": "norm2",
}


def tiny_bert(folder: Path, layers: int = 1, seed: int = 0, prefix: str = "", **config: Any) -> Path:
    """Write the folder; `prefix` is that of the weights' names."""
    folder.mkdir(exist_ok=True)
    sizes = {"hidden_size": HIDDEN, "num_attention_heads": HEADS, "num_hidden_layers": layers}
    known = {"model_type": "bert", "max_position_embeddings": POSITIONS, "hidden_act": "gelu", **sizes}
    (folder / "config.json").write_text(json.dumps({**known, "intermediate_size": MIDDLE, **config}))
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True}))
    weights = {f"{prefix}{name}": each for name, each in _weights(layers, seed).items()}
    save_file({**weights, "position_ids": np.arange(POSITIONS)}, folder / "model.safetensors")
    return folder


def _weights(layers: int, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)

    def linear(name: str, rows: int, columns: int) -> dict[str, Array]:
        return {
            f"{name}.weight": rng.normal(size=(rows, columns)).astype(np.float32) / 3,
            f"{name}.bias": rng.normal(size=rows).astype(np.float32) / 3,
        }

    def norm(name: str) -> dict[str, Array]:
        return {f"{name}.{part}": rng.normal(size=HIDDEN).astype(np.float32) for part in ("weight", "bias")}

    tables = {"word": len(PIECES), "position": POSITIONS, "token_type": 2}
    found = {
        f"embeddings.{name}_embeddings.weight": rng.normal(size=(rows, HIDDEN)).astype(np.float32)
        for name, rows in tables.items()
    }
    found |= norm("embeddings.LayerNorm")
    for layer in range(layers):
        first = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            found |= linear(f"{first}.attention.self.{part}", HIDDEN, HIDDEN)
        found |= linear(f"{first}.attention.output.dense", HIDDEN, HIDDEN) | norm(f"{first}.attention.output.LayerNorm")
        found |= linear(f"{first}.intermediate.dense", MIDDLE, HIDDEN) | linear(f"{first}.output.dense", HIDDEN, MIDDLE)
        found |= norm(f"{first}.output.LayerNorm")
    return found


@torch.no_grad()
def by_torch(rows: Array, layers: int = 1, seed: int = 0) -> Array:
    """Outputs of the same network, made of torch's own layers."""
    weights = {name: torch.from_numpy(each) for name, each in _weights(layers, seed).items()}
    tokens = torch.from_numpy(rows.astype(np.int64))

    def normed(name: str, values: torch.Tensor) -> torch.Tensor:
        return nn.functional.layer_norm(values, (HIDDEN,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-12)

    table = {name: weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")}
    hidden = normed(
        "embeddings.LayerNorm", table["word"][tokens] + table["position"][: rows.shape[1]] + table["token_type"][0]
    )
    for number in range(layers):
        layer = nn.TransformerEncoderLayer(HIDDEN, HEADS, MIDDLE, 0.0, "gelu", 1e-12, batch_first=True).eval()
        first = f"encoder.layer.{number}"
        state = {
            f"{other}.{part}": weights[f"{first}.{name}.{part}"]
            for name, other in LAYER.items()
            for part in ("weight", "bias")
        }
        for part in ("weight", "bias"):
            three = [weights[f"{first}.attention.self.{name}.{part}"] for name in ("query", "key", "value")]
            state[f"self_attn.in_proj_{part}"] = torch.cat(three)
        layer.load_state_dict(state)
        with torch.enable_grad():  # the plain path, which keeps padded rows
            hidden = layer(hidden, src_key_padding_mask=tokens == 0).detach()
    there = (tokens > 0).float()[..., None]
    return nn.functional.normalize((hidden * there).sum(1) / there.sum(1)).numpy()
