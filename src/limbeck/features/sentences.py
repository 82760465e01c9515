"""Sentence encoders: a folder in the form of the package transformers, as an ONNX network of token numbers.

The network is BERT (Devlin et al. 2019) as in sentence-transformers (Reimers & Gurevych 2019): the mean of the last
layer over the tokens of a text, with length 1. It is built here from the weights; no code of the folder is run.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from limbeck.data.texts import TextSettings
from limbeck.data.tokens import LENGTH, Kind, Tokens, read_vocabulary
from limbeck.errors import LimbeckError, reading
from limbeck.features.graph import Graph
from limbeck.models.onnx import IR_VERSION, OPSETS
from limbeck.protocol.rows import Array

CONFIG, VOCABULARY, WEIGHTS, CASE = "config.json", "vocab.txt", "model.safetensors", "tokenizer_config.json"
ENTRY, OUTPUT = "rows", "outputs"
ACTIVATIONS = {"gelu": ("Gelu", {}), "gelu_new": ("Gelu", {"approximate": "tanh"}), "relu": ("Relu", {})}
HIDDEN = np.float32(-1e9)  # added to the attention score of padding, so that its weight is 0
TINY = np.float32(1e-12)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a BERT network, from `config.json`.

    Parameters
    ----------
    hidden, heads, layers : int
        Width of a layer, attention heads, and number of layers.
    positions : int
        Longest text, in tokens.
    activation : str
        Activation of the middle of a layer.
    epsilon : float
        Added to the variance in a layer norm.
    """

    hidden: int
    heads: int
    layers: int
    positions: int
    activation: str
    epsilon: float


def rule_of_texts(text: TextSettings | None, algorithm: Any, features: Any, folder: Path = Path()) -> Tokens | None:
    """Rule of the texts of a run: that of its sentence encoder, or of `data.text`.

    Parameters
    ----------
    text : TextSettings or None
        Setting `data.text`.
    algorithm : Algorithm or None
        The algorithm, which may have features of its own.
    features : Features or None
        Features of the run.
    folder : Path
        Folder that paths are relative to.

    Returns
    -------
    Tokens or None
        The rule; None where neither says anything.
    """
    features = features or getattr(algorithm, "features", None)
    path = getattr(features, "path", "")
    if not path or not (folder / path).is_dir():
        return text.rule(folder) if text else None
    if text and (text.tokens or text.vocabulary):
        raise LimbeckError(
            f"data.text: tokens and vocabulary are those of the sentence encoder features.path = {path!r}; remove them"
        )
    try:
        return tokens_of(folder / path, text.length if text else LENGTH)
    except LimbeckError as error:
        raise LimbeckError(f"features.path = {path!r}: {error}") from error


def tokens_of(folder: Path, length: int = LENGTH) -> Tokens:
    """Rule of the texts that a sentence encoder reads.

    Parameters
    ----------
    folder : Path
        Folder of the encoder.
    length : int
        Largest number of tokens; the encoder may take fewer.

    Returns
    -------
    Tokens
        The rule, with the vocabulary of the encoder.
    """
    sizes = _sizes(folder)
    settings = _json(folder / CASE) if (folder / CASE).is_file() else {}
    kind: Kind = "wordpiece" if settings.get("do_lower_case", True) else "wordpiece-cased"
    return Tokens(kind, min(length, sizes.positions), read_vocabulary(folder / VOCABULARY))


def read_sentence_encoder(folder: Path, length: int) -> bytes:
    """Network of a sentence encoder.

    Parameters
    ----------
    folder : Path
        Folder with `config.json` and `model.safetensors`.
    length : int
        Token numbers in a row.

    Returns
    -------
    bytes
        ONNX model from rows of token numbers to one vector of length 1 each. It also takes shorter rows.

    Raises
    ------
    LimbeckError
        If the folder is not that of a BERT network in the form of transformers.
    """
    sizes = _sizes(folder)
    if length > sizes.positions:
        raise LimbeckError(f"it takes at most {sizes.positions} tokens, but rows have {length}: lower data.text.length")
    try:
        return _built(sizes, _weights(folder))
    except (KeyError, ValueError, IndexError) as error:
        raise LimbeckError(
            f"{WEIGHTS} does not have the weights of {CONFIG}: {' '.join(str(error).split())}"
        ) from error


def _sizes(folder: Path) -> Sizes:
    found = _json(folder / CONFIG)
    kinds = found.get("model_type"), found.get("position_embedding_type", "absolute")
    if kinds != ("bert", "absolute"):
        raise LimbeckError(f'{CONFIG} has model_type = "{kinds[0]}"; only "bert" with absolute positions is supported')
    if (activation := found.get("hidden_act", "gelu")) not in ACTIVATIONS:
        raise LimbeckError(f'{CONFIG} has hidden_act = "{activation}"; known: {", ".join(ACTIVATIONS)}')
    names = ("hidden_size", "num_attention_heads", "num_hidden_layers", "max_position_embeddings")
    numbers = [found.get(name) for name in names]
    for name, number in zip(names, numbers, strict=True):
        if not isinstance(number, int) or number < 1:
            raise LimbeckError(f"{CONFIG}: {name} = {number!r} must be a whole number, at least 1")
    hidden, heads, layers, positions = map(int, numbers)  # type: ignore[arg-type]
    if hidden % heads:
        raise LimbeckError(f"{CONFIG}: hidden_size = {hidden} is no multiple of num_attention_heads = {heads}")
    return Sizes(hidden, heads, layers, positions, activation, float(found.get("layer_norm_eps", 1e-12)))


def _json(path: Path) -> dict[str, Any]:
    with reading(path):
        text = path.read_text(encoding="utf-8")
    try:
        found = json.loads(text)
    except ValueError as error:
        raise LimbeckError(f"{path.name} is not JSON") from error
    if not isinstance(found, dict):
        raise LimbeckError(f"{path.name} is not a JSON object")
    return found


def _weights(folder: Path) -> dict[str, Array]:
    """Weights in float32, by their names in BERT."""
    path = folder / WEIGHTS
    with reading(path):
        data = path.read_bytes()
    try:
        found = safetensors.load(data)
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise LimbeckError(f"{WEIGHTS} cannot be read: it must be safetensors of float32 or float16") from error
    return {
        name.removeprefix("bert.").replace(".gamma", ".weight").replace(".beta", ".bias"): np.asarray(each, np.float32)
        for name, each in found.items()
        if each.dtype.kind == "f"
    }


def _built(sizes: Sizes, weights: dict[str, Array]) -> bytes:
    graph = Graph(())
    network = _Network(graph, sizes, weights)
    hidden, mask, hiding = network.embedded()
    for layer in range(sizes.layers):
        hidden = network.layer(f"encoder.layer.{layer}", hidden, hiding)
    total = graph.add("ReduceSum", graph.add("Mul", hidden, mask), np.array([1]), keepdims=0)
    count = graph.add("Max", graph.add("ReduceSum", mask, np.array([1]), keepdims=0), np.float32(1))
    mean = graph.add("Div", total, count)
    squares = graph.add("ReduceSum", graph.add("Mul", mean, mean), np.array([1]), keepdims=1)
    graph.add("Div", mean, graph.add("Max", graph.add("Sqrt", squares), TINY), output=OUTPUT)
    entry = helper.make_tensor_value_info(ENTRY, TensorProto.FLOAT, ["rows", "tokens"])
    output = helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["rows", sizes.hidden])
    whole = helper.make_graph(graph.nodes, "encoder", [entry], [output], graph.weights)
    sets = [helper.make_opsetid("", OPSETS[""])]
    return bytes(
        helper.make_model(whole, opset_imports=sets, ir_version=IR_VERSION).SerializeToString(deterministic=True)
    )


@dataclass(frozen=True, slots=True)
class _Network:
    """Parts of a BERT network, added to a graph."""

    graph: Graph
    sizes: Sizes
    weights: dict[str, Array]

    def embedded(self) -> tuple[str, str, str]:
        """Embeddings of the tokens; the mask of shape (rows, tokens, 1); what is added to attention scores."""
        add, first = self.graph.add, "embeddings"
        words, places = (self.weights[f"{first}.{name}_embeddings.weight"] for name in ("word", "position"))
        if words.shape[1] != self.sizes.hidden or places.shape[0] < self.sizes.positions:
            raise ValueError("the embeddings have other sizes")
        tokens = add("Cast", add("Clip", ENTRY, np.float32(0), np.float32(len(words) - 1)), to=TensorProto.INT64)
        there = add("Cast", add("Greater", tokens, np.int64(0)), to=TensorProto.FLOAT)
        length = add("Slice", add("Shape", ENTRY), np.array([1]), np.array([2]))
        fixed = places + self.weights[f"{first}.token_type_embeddings.weight"][0]
        position = add("Slice", fixed, np.array([0]), length, np.array([0]))
        summed = add("Add", add("Gather", words, tokens), position)
        absent = add("Mul", add("Sub", np.float32(1), there), HIDDEN)
        hiding = add("Unsqueeze", absent, np.array([1, 2]))
        return self._norm(f"{first}.LayerNorm", summed), add("Unsqueeze", there, np.array([2])), hiding

    def layer(self, name: str, hidden: str, hiding: str) -> str:
        """One layer: attention, and two dense layers, each with a shortcut and a layer norm."""
        add = self.graph.add
        found = self._dense(f"{name}.attention.output.dense", self._attention(f"{name}.attention.self", hidden, hiding))
        hidden = self._norm(f"{name}.attention.output.LayerNorm", add("Add", hidden, found))
        operator, attributes = ACTIVATIONS[self.sizes.activation]
        middle = add(operator, self._dense(f"{name}.intermediate.dense", hidden), **attributes)
        found = self._dense(f"{name}.output.dense", middle)
        return self._norm(f"{name}.output.LayerNorm", add("Add", hidden, found))

    def _attention(self, name: str, hidden: str, hiding: str) -> str:
        add, size = self.graph.add, self.sizes.hidden // self.sizes.heads
        shape = np.array([0, 0, self.sizes.heads, size])
        query, key, value = (
            add("Reshape", self._dense(f"{name}.{part}", hidden, scale), shape)
            for part, scale in (("query", size**-0.5), ("key", 1.0), ("value", 1.0))
        )
        query, value = (add("Transpose", each, perm=[0, 2, 1, 3]) for each in (query, value))
        scores = add("Add", add("MatMul", query, add("Transpose", key, perm=[0, 2, 3, 1])), hiding)
        mixed = add("Transpose", add("MatMul", add("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
        return add("Reshape", mixed, np.array([0, 0, self.sizes.hidden]))

    def _dense(self, name: str, hidden: str, scale: float = 1.0) -> str:
        weight, bias = (self.weights[f"{name}.{part}"] * np.float32(scale) for part in ("weight", "bias"))
        return self.graph.add("Add", self.graph.add("MatMul", hidden, weight.T), bias)

    def _norm(self, name: str, hidden: str) -> str:
        weight, bias = (self.weights[f"{name}.{part}"] for part in ("weight", "bias"))
        return self.graph.add("LayerNormalization", hidden, weight, bias, epsilon=self.sizes.epsilon)
