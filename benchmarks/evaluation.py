"""Metrics from the counts of ten parties beside those of pooled test rows, for docs/deploy.md.

LIMBECK_DATA=FOLDER python benchmarks/evaluation.py        (after python examples/rare.py FOLDER)
"""

from pathlib import Path
from typing import Any

import numpy as np

import limbeck as lb
from limbeck.data.sets import load
from limbeck.experiments.config import Experiment, check_table, read_toml
from limbeck.experiments.counted import metrics_of_counts, uncertainty_of
from limbeck.experiments.splitting import split_rows
from limbeck.knowledge.counts import PredictionCounts
from limbeck.protocol.disclosures import Facts

FILE = Path(__file__).parents[1] / "examples" / "rare.toml"
PARTIES = 10
NAMES = ("accuracy", "roc_auc", "pr_auc", "brier", "calibration_error", "sensitivity")


def main() -> None:
    model, data = lb.run_file(FILE).model, load("adult_rare")
    assert model is not None
    test = data.test_rows()
    public = split_rows(check_table(Experiment, read_toml(FILE), str(FILE))).public
    assert public is not None
    pooled = lb.evaluate(model, (test.x, np.array(data.classes)[test.y])).metrics
    print("pooled test rows:", *(f"{name} {getattr(pooled, name):.4f}" for name in NAMES))
    labels, scores = model.packed.run(test.x)
    rng = np.random.default_rng(0)
    owner = rng.integers(0, PARTIES, len(labels))
    for epsilon in (None, 3.0, 1.0):
        privacy = lb.Privacy(level="L2", epsilon=epsilon) if epsilon else lb.Privacy()
        algorithm = lb.FederatedEvaluation(privacy=privacy)
        mechanism: Any = algorithm.mechanism(Facts(0, 2, PARTIES, "simulated"))
        sigma, bins = getattr(mechanism, "sigma", 0.0), algorithm.bins_of(model.onnx, public.x, 2)
        vectors = [
            PredictionCounts.of(test.y[own], labels[own], scores[own], bins.edges).vector
            for own in (owner == party for party in range(PARTIES))
        ]
        noisy = sum(vector + rng.normal(0, sigma, len(vector)) for vector in vectors)
        counts = PredictionCounts.from_vector(np.asarray(noisy), 2, algorithm.bins)
        found, uncertain = metrics_of_counts(counts, bins), uncertainty_of(counts, sigma * PARTIES**0.5, bins)
        print(
            f"epsilon {epsilon}:",
            *(
                f"{name} {getattr(found, name):.4f} ± {uncertain[name].noise:.4f}"
                for name in NAMES
                if name in uncertain
            ),
        )


if __name__ == "__main__":
    main()
