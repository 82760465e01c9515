"""Run an experiment: from a TOML table, or from arrays in Python."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from limbeck.data.draw import Draw, FromFile, cut
from limbeck.data.own import Files, read_files
from limbeck.data.schema import Schema
from limbeck.data.sets import DataSet, as_float, check_finite, load, load_file
from limbeck.errors import LimbeckError
from limbeck.experiments.clock import Clock
from limbeck.experiments.config import Data, Experiment, Source
from limbeck.experiments.federation import Federation
from limbeck.experiments.result import Result
from limbeck.models.named import adapted, model_from
from limbeck.models.training import Watch, unwatched
from limbeck.protocol.learning import Model
from limbeck.protocol.parties import Algorithm
from limbeck.protocol.rows import Array, Rows
from limbeck.protocol.streams import stream


@dataclass(frozen=True, slots=True)
class Dealt:
    """Who holds what: each party's rows, the public rows and the test rows."""

    classes: tuple[str, ...]
    private: list[Rows]
    public: Rows | None
    test: Rows | None
    schema: Schema | None = None


def deal(experiment: Source, base: Path = Path()) -> Dealt:
    """Rows from a named data set, from one file, or from a file a party; paths are relative to `base`."""
    config, seed = experiment.data, experiment.seed
    if config.name is not None:
        return _named(config, seed, base)
    files = Files(
        private=[base / path for path in experiment.files or [str(config.path)]],
        label=config.label,
        schema=base / config.schema_file if config.schema_file else None,
        public=base / config.public.path if isinstance(config.public, FromFile) else None,
        test=base / config.test.path if isinstance(config.test, FromFile) else None,
    )
    drawn = config.public if isinstance(config.public, Draw) else None
    own = read_files(files, drawn, seed)
    if experiment.files:
        for key, source in (("public", config.public), ("test", config.test)):
            if isinstance(source, Draw):
                raise LimbeckError(f'data.{key}: with a file a party it must be a file too, {{ path = "{key}.csv" }}')
        return Dealt(own.classes, own.private, own.public, own.test, own.schema)
    [rows] = own.private
    test_x, test_y = (own.test.x, own.test.y) if own.test else (None, None)
    data = DataSet(str(files.private[0]), rows.x, rows.y, own.classes, test_x, test_y)
    dealt = _split(data, config, seed)
    return replace(dealt, public=own.public or dealt.public, schema=own.schema)


def _named(config: Data, seed: int, base: Path) -> Dealt:
    """A named data set; its public rows may be a file of arrays."""
    data = load(str(config.name))
    dealt = _split(data, config, seed)
    if isinstance(config.test, FromFile):
        raise LimbeckError("data.test: a file goes with data.path or [[party]] data, not with data.name")
    if not isinstance(config.public, FromFile):
        return dealt
    public = load_file(base / config.public.path)
    if public.x.shape[1:] != data.x.shape[1:]:
        raise LimbeckError(
            f"data.public: {public.name} has rows of {public.x.shape[1:]}, {data.name} of {data.x.shape[1:]}"
        )
    return replace(dealt, public=Rows(as_float(public.x), public.y))


def _split(data: DataSet, config: Data, seed: int) -> Dealt:
    public, test = (source if isinstance(source, Draw) else None for source in (config.public, config.test))
    parts = cut(data, public, test, seed)
    groups = {name: members[parts.private] for name, members in data.groups.items()}
    held = config.split.deal(data.y[parts.private], groups, config.parties, stream(seed, "split"))
    return Dealt(data.classes, [data.rows(parts.private[rows]) for rows in held], parts.public, parts.test)


def federation_of(experiment: Experiment, config: Mapping[str, Any], base: Path = Path()) -> Federation:
    """The federation that an experiment describes; `config` is what the record keeps of it."""
    dealt = deal(experiment, base)
    if dealt.test is None and experiment.data.name:
        name = experiment.data.name
        raise LimbeckError(f"{name} has no official test rows: say how many to set aside with data.test")
    return Federation(
        algorithm=experiment.algorithm,
        seed=experiment.seed,
        classes=np.array(dealt.classes),
        private=dealt.private,
        models=[experiment.model_of(party) for party in range(experiment.parties)],
        server_model=experiment.server_model,
        public=dealt.public,
        test=dealt.test,
        schema=dealt.schema,
        public_is_kindred=isinstance(experiment.data.public, Draw) and experiment.data.public.name is None,
        config=config,
    )


def run_experiment(
    experiment: Experiment,
    config: Mapping[str, Any],
    processes: int | None = None,
    watch: Watch = unwatched,
    base: Path = Path(),
) -> Result:
    """Deal the rows and let the parties learn."""
    clock = Clock()
    with clock.phase("data"):
        federation = federation_of(experiment, config, base)
    return federation.run(processes, watch, clock)


def run(
    algorithm: Algorithm,
    parties: Sequence[tuple[Any, Any]],
    public: Any = None,
    models: Any = "random-forest",
    server_model: Any = None,
    test: tuple[Any, Any] | None = None,
    seed: int = 0,
    processes: int | None = None,
    watch: Watch = unwatched,
) -> Result:
    """Let parties learn together in this process.

    `parties` are (X, y) pairs; y may hold any labels. `models` is a scikit-learn estimator, a model's name or its
    table, for all parties or one for each; `server_model` is the final model's, by default the first party's.
    `public` are rows without labels.
    """
    if not parties:
        raise LimbeckError("parties is empty: give at least one (X, y) pair")
    labels = [np.asarray(y) for _, y in [*parties, *([test] if test else [])]]
    classes = np.unique(np.concatenate(labels))
    private = [_rows(x, y, classes, f"party {index}") for index, (x, y) in enumerate(parties)]
    shape = private[0].x.shape[1:]
    for index, rows in enumerate(private):
        _check_shape(rows.x, shape, f"party {index}")
    chosen = _models(models, len(parties))
    server = chosen[0] if server_model is None else _model(server_model)
    federation = Federation(
        algorithm=algorithm,
        seed=seed,
        classes=classes,
        private=private,
        models=chosen,
        server_model=server,
        public=None if public is None else _public(public, shape),
        test=None if test is None else _rows(*test, classes, "test"),
        config={
            "seed": seed,
            "algorithm": {"name": algorithm.name, **asdict(cast(Any, algorithm))},
            "server": {"model": dict(server.description)},
        },
    )
    return federation.run(processes, watch)


def _models(given: Any, parties: int) -> list[Model]:
    if not isinstance(given, list | tuple):
        return [_model(given)] * parties
    if len(given) != parties:
        raise LimbeckError(f"{len(given)} models for {parties} parties: give one, or one for each")
    return [_model(each) for each in given]


def _model(given: Any) -> Model:
    if isinstance(given, str):
        return model_from({"name": given})
    return model_from(given) if isinstance(given, Mapping) else adapted(given)


def _rows(x: Any, y: Any, classes: Array, where: str) -> Rows:
    rows, labels = _floats(x, where), np.asarray(y)
    if labels.shape != (len(rows),):
        raise LimbeckError(f"{where}: {len(rows)} rows need as many labels, not y of shape {labels.shape}")
    if not len(rows):
        raise LimbeckError(f"{where} has no rows")
    return Rows(rows, np.searchsorted(classes, labels))


def _public(x: Any, shape: tuple[int, ...]) -> Rows:
    rows = _floats(x, "public")
    _check_shape(rows, shape, "public")
    return Rows(rows, np.zeros(len(rows), np.int64))


def _floats(x: Any, where: str) -> Array:
    try:
        rows = as_float(np.asarray(x))
    except (TypeError, ValueError) as error:
        raise LimbeckError(f"{where}: rows must be numbers ({error})") from error
    if rows.ndim < 2:
        raise LimbeckError(f"{where}: rows must have at least two dimensions, not the shape {rows.shape}")
    check_finite(rows, where)
    return rows


def _check_shape(x: Array, shape: tuple[int, ...], where: str) -> None:
    if x.shape[1:] != shape:
        raise LimbeckError(f"{where}: rows of shape {x.shape[1:]}, but party 0 has rows of shape {shape}")
