"""Sentence encoders: BERT as an ONNX graph of token numbers, one text at a time and without padding."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoders import DENSE
from limbeck.data.sets import load_file
from limbeck.data.texts import TextSettings, text_settings
from limbeck.data.tokens import Tokens
from limbeck.errors import LimbeckError
from limbeck.features.encoder import NETWORK, SENTENCES, Encoder, try_network
from limbeck.features.map import FeatureMap, unpack
from limbeck.features.packing import packed_behind
from limbeck.features.sentences import read_sentence_encoder, rule_of_texts, tokens_of
from limbeck.features.settings import Features, network_digest
from limbeck.models.named import model_from
from limbeck.models.onnx import PackedModel
from limbeck.protocol.rows import Array
from text_sets import reviews
from tiny_bert import PIECES, POSITIONS, by_torch, tiny_bert

LENGTH = 12


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_bert(tmp_path / "encoder", layers=2)


def tokens(folder: Path, count: int = 40) -> Array:
    texts, _ = reviews(count)
    return tokens_of(folder, LENGTH).encode([*texts[:-4], "good", "good good film", "unknown", "the " * 50])


def test_it_is_the_network_of_torch(folder: Path) -> None:
    rows = tokens(folder)
    found = Encoder(read_sentence_encoder(folder, LENGTH), (LENGTH,), of_tokens=True)
    assert np.abs(found.in_batch(rows) - by_torch(rows, layers=2)).max() < 1e-5
    assert np.abs(found.outputs(rows) - by_torch(rows, layers=2)).max() < 1e-5
    assert np.isfinite(found.outputs(np.zeros((1, LENGTH), np.float32))).all()


def test_other_names_of_the_weights_are_known(tmp_path: Path) -> None:
    one = tiny_bert(tmp_path / "a", hidden_act="relu")
    other = tiny_bert(tmp_path / "b", prefix="bert.", hidden_act="relu")
    assert read_sentence_encoder(one, LENGTH) == read_sentence_encoder(other, LENGTH)


def test_a_vector_does_not_depend_on_the_batch_nor_on_padding(folder: Path) -> None:
    rows = tokens(folder)
    features = Features("encoder", path=str(folder)).fit(rows, 0, of_tokens=True)
    assert features.kind == SENTENCES
    together = features.unit(rows)
    assert np.allclose(np.linalg.norm(together, axis=1), 1)
    for size in (1, 2, 7):
        assert np.array_equal(features.unit(rows[:size]), together[:size])
    assert np.array_equal(features.unit(rows[::-1]), together[::-1])


def test_a_model_behind_it_takes_token_numbers(folder: Path) -> None:
    rows = tokens(folder)
    features = Features("encoder", path=str(folder)).fit(rows, 0, of_tokens=True)
    y = np.arange(len(rows)) % 2
    fitted = model_from({"name": "logistic-regression"}).fit(features.vectors(rows), y, 2, 0)
    packed = PackedModel(packed_behind(features, fitted.pack()))
    assert np.allclose(packed.scores(rows), fitted.scores(features.vectors(rows)), atol=1e-3)
    assert np.allclose(packed.scores(rows[:1]), packed.scores(rows)[:1], atol=1e-3)


def test_the_map_travels_and_is_tried_with_texts_of_every_length(folder: Path) -> None:
    rows = tokens(folder)
    features = FeatureMap.fit(SENTENCES, rows, 0, 5, read_sentence_encoder(folder, LENGTH))
    found = unpack(SENTENCES, features.pack(), (LENGTH,))
    assert np.array_equal(found.unit(rows), features.unit(rows))
    with pytest.raises(LimbeckError, match="known kind"):
        unpack(SENTENCES, features.pack(), (3, 4))


def test_a_network_that_fails_for_some_length_is_refused(folder: Path) -> None:
    """One for rows of a fixed length: a private text of another length would not be mapped."""
    try_network(read_sentence_encoder(folder, LENGTH), (LENGTH,), of_tokens=True)
    with pytest.raises(LimbeckError, match="cannot be used"):
        try_network(DENSE, (5,), of_tokens=True)


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"model_type": "gpt2"}, 'model_type = "gpt2"; only "bert"'),
        ({"position_embedding_type": "relative_key"}, 'only "bert" with absolute positions'),
        ({"hidden_act": "swish"}, 'hidden_act = "swish"; known: gelu'),
        ({"num_hidden_layers": "two"}, "num_hidden_layers = 'two' must be a whole number"),
        ({"num_attention_heads": 3}, "hidden_size = 16 is no multiple of num_attention_heads = 3"),
        ({"num_hidden_layers": 5}, r"model.safetensors does not have the weights of config.json: .*encoder.layer.2"),
        ({"hidden_size": 32}, "does not have the weights of config.json: the embeddings have other sizes"),
        ({"max_position_embeddings": 8}, "takes at most 8 tokens, but rows have 12: lower data.text.length"),
    ],
)
def test_other_networks_are_refused_in_one_line(folder: Path, config: dict[str, Any], complaint: str) -> None:
    tiny_bert(folder, layers=2)
    known = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**known, **config}))
    with pytest.raises(LimbeckError, match=complaint) as error:
        read_sentence_encoder(folder, LENGTH)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.txt"])
def test_a_missing_or_broken_file_is_named(folder: Path, name: str) -> None:
    def read() -> None:
        tokens_of(folder)
        Features("encoder", path=str(folder)).fit(np.ones((9, LENGTH), np.float32), 0, of_tokens=True)

    (folder / name).write_bytes(b"\xff\xfe no")
    with pytest.raises(LimbeckError, match=name):
        read()
    (folder / name).unlink()
    with pytest.raises(LimbeckError, match=name):
        read()


def test_the_rule_is_that_of_the_encoder(folder: Path) -> None:
    features = Features("encoder", path="encoder")
    rule = rule_of_texts(None, None, features, folder.parent)
    assert rule == Tokens("wordpiece", POSITIONS, PIECES)
    assert rule_of_texts(TextSettings(length=9), None, features, folder.parent) == Tokens("wordpiece", 9, PIECES)
    with pytest.raises(LimbeckError, match="tokens and vocabulary are those of the sentence encoder"):
        rule_of_texts(TextSettings(tokens="words"), None, features, folder.parent)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert tokens_of(folder).tokens == "wordpiece-cased"
    assert rule_of_texts(None, None, Features("standard"), folder.parent) is None
    assert rule_of_texts(text_settings("review"), None, None, folder.parent) == Tokens()


def test_rows_of_numbers_are_refused(folder: Path) -> None:
    with pytest.raises(LimbeckError, match=r"features.path = .*needs texts; these rows are numbers"):
        Features("encoder", path=str(folder)).fit(np.ones((9, LENGTH), np.float32), 0)


def test_the_digest_of_a_folder_is_that_of_its_files(folder: Path) -> None:
    features = Features("encoder", path="encoder")
    before = network_digest(None, features, folder.parent)
    assert network_digest(None, features, folder.parent) == before
    tiny_bert(folder, layers=2, seed=1)
    assert network_digest(None, features, folder.parent) != before


def test_a_real_encoder_gives_its_own_vectors() -> None:
    """all-MiniLM-L6-v2: the first rows of SST-2, as the package transformers encodes them."""
    data = Path(os.environ.get("LIMBECK_DATA", "nowhere"))
    missing = [name for name in ("minilm", "sst2.npz", "sst2-minilm.npz") if not (data / name).exists()]
    if missing:
        pytest.skip(f"LIMBECK_DATA has no {missing[0]}")
    rows = load_file(data / "sst2.npz", tokens_of(data / "minilm")).x[:20]
    network = read_sentence_encoder(data / "minilm", 128)
    found = Encoder(network, (128,), of_tokens=True).outputs(rows)
    assert (found * np.load(data / "sst2-minilm.npz")["x_train"][:20]).sum(axis=1).min() > 0.999


def test_the_network_is_a_part_of_the_map(folder: Path) -> None:
    features = Features("encoder", path=str(folder)).fit(tokens(folder), 0, of_tokens=True)
    assert features.arrays[NETWORK].tobytes() == read_sentence_encoder(folder, LENGTH)
