"""Texts between organisations: the rule is in the join file, and every party reads its own texts by it."""

from pathlib import Path

import numpy as np
import pytest

from direct_parties import DirectConsortium
from limbeck.consortium import party
from limbeck.consortium.coordinator import begin
from limbeck.consortium.experiment import features_file, prepare_run
from limbeck.consortium.party import PartyFolder
from limbeck.errors import LimbeckError
from limbeck.experiments.result import load
from text_sets import npz_of, reviews
from tiny_bert import PIECES, tiny_bert

TEXTS, LABELS = reviews(240)
TEST, TRUE = reviews(40, seed=5)
EXPERIMENT = """seed = 3
noise = "simulated"
deadline = 0.3
[data]
public = "{public}"
classes = ["0", "1"]
{data}
[model]
name = "tfidf-linear"
[algorithm]
{algorithm}
"""


def table(path: Path, rows: slice) -> None:
    lines = [f'"{text}",{label}' for text, label in zip(TEXTS[rows], LABELS[rows], strict=True)]
    path.write_text("\n".join(["review,mark", *lines]))


class Texts(DirectConsortium):
    """A consortium with tables of reviews, or with NPZ files of them."""

    def write(self, algorithm: str, data: str = 'label = "mark"\ntext = { column = "review", length = 12 }') -> Path:
        self.ending = "csv" if "label" in data else "npz"
        self._rows(self.folder.path / f"public.{self.ending}", slice(180, 240))
        file = self.folder.path / "experiment.toml"
        file.write_text(EXPERIMENT.format(public=f"public.{self.ending}", data=data, algorithm=algorithm))
        return file

    def admit_all(self) -> None:
        """Admit three parties with texts of their own."""
        for number, name in enumerate("abc"):
            home = self.home / name
            party.init(home, self.folder.invite(name))
            self.folder.admit(home / f"{name}.pub")
            self._rows(home / f"public.{self.ending}", slice(180, 240))
            self._rows(home / f"private.{self.ending}", slice(60 * number, 60 * number + 60))
            features = features_file(self.folder.path / "experiment.toml")
            if features.exists():
                (home / "features.safetensors").write_bytes(features.read_bytes())
            agree = "".join(f'[[agree]]\nalgorithm = "{each}"\n' for each in ("fedvote", "fedridge"))
            (home / "party.toml").write_text(
                f'data = "private.{self.ending}"\npublic = "public.{self.ending}"\nsimulation = true\n'
                f'features = "features.safetensors"\nunprotected = true\n[model]\nname = "tfidf-linear"\n{agree}'
            )

    def _rows(self, path: Path, rows: slice) -> None:
        if path.suffix == ".npz":
            npz_of(path, TEXTS[rows], labels=LABELS[rows])
        else:
            table(path, rows)


@pytest.fixture
def consortium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Texts:
    return Texts(tmp_path, monkeypatch)


@pytest.mark.parametrize("algorithm", ['name = "fedvote"', 'name = "fedridge"'])
@pytest.mark.parametrize("data", ['label = "mark"\ntext = { column = "review", length = 12 }', ""], ids=["csv", "npz"])
def test_parties_learn_texts_together(consortium: Texts, algorithm: str, data: str) -> None:
    file = consortium.write(algorithm, data)
    consortium.admit_all()
    begin(consortium.folder, file, print)
    model = load(consortium.folder.path / "runs" / "experiment-1" / "model.onnx")
    assert np.mean(model.predict(TEST) == TRUE.astype(str)) > 0.8
    own = load(next((consortium.home / "a" / "models").iterdir()))
    assert np.array_equal(own.predict(TEST), model.predict(TEST))


def test_the_rule_reaches_a_party_with_the_join_file(consortium: Texts) -> None:
    consortium.write('name = "fedvote"')
    consortium.admit_all()
    folder = PartyFolder(consortium.home / "a")
    assert folder.schema is not None
    assert folder.schema.text is not None
    assert folder.schema.text.length == 12
    assert folder.private().x.shape == (60, 12)
    assert folder.public(False).are_tokens


@pytest.mark.parametrize("algorithm", ['name = "fedvote"', 'name = "fedridge"'])
def test_a_sentence_encoder_reaches_all_parties(consortium: Texts, algorithm: str) -> None:
    tiny_bert(consortium.folder.path / "encoder")
    features = '\n[features]\nkind = "encoder"\npath = "encoder"\nnumber = 16'
    file = consortium.write(algorithm + features)
    run = prepare_run(file)
    assert run.schema is not None
    assert run.schema.text is not None
    assert run.schema.text.vocabulary == PIECES
    consortium.admit_all()
    begin(consortium.folder, file, print)
    model = load(consortium.folder.path / "runs" / "experiment-1" / "model.onnx")
    assert model.predict(["good film", ""]).shape == (2,)


def test_wrong_settings_are_reported(consortium: Texts) -> None:
    file = consortium.write('name = "fedvote"', 'label = "mark"\ntext = "reviews"')
    with pytest.raises(LimbeckError, match="no column 'reviews'"):
        prepare_run(file)
    np.savez(consortium.folder.path / "public.npz", x_train=np.ones((9, 2)), y_train=np.arange(9) % 2)
    file.write_text(EXPERIMENT.format(public="public.npz", data="text = { length = 9 }", algorithm='name = "fedvote"'))
    with pytest.raises(LimbeckError, match=r"data\.text: public\.npz holds no texts"):
        prepare_run(file)
