"""Calibration error of test instances before and after a temperature that the labels of validation bags choose.

    python benchmarks/temperature.py digits --scenarios small,large --methods count,vote --folds 0-2 --out FILE.jsonl
    python benchmarks/temperature.py crops.csv --methods auto --recipe census --folds 0-4 --out FILE.jsonl

The temperature T divides the log-probabilities of an instance. It has the highest likelihood of the labels of the
validation bags if instances vote independently by softmax(log p / T) (`vote_scores`). Test instance labels are used
for the calibration error only.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

import majority
from majority.cli.options import parse_folds
from majority.data.segments import Segments
from majority.losses.functional import vote_scores
from majority.predict.metrics import calibration_error, calibration_table

TEMPERATURES = np.geomspace(0.25, 16, 49)


def log_probabilities(classifier, bags) -> torch.Tensor:  # (n, C), of bags in order
    pieces = [p for _, p in classifier.stream(bags)]
    return torch.from_numpy(np.concatenate(pieces)).double().clamp_min(1e-30).log()


def label_loss(log_probs: torch.Tensor, segments: Segments, labels: torch.Tensor, temperature: float) -> float:
    votes = (log_probs / temperature).log_softmax(dim=1)
    scores = vote_scores(votes, segments).log_softmax(dim=1)
    return -scores.gather(1, labels[:, None]).mean().item()


def calibration(log_probs: torch.Tensor, truth: np.ndarray, temperature: float) -> float:
    confidence, predicted = (log_probs / temperature).softmax(dim=1).max(dim=1)
    return calibration_error(calibration_table(confidence.numpy(), predicted.numpy() == truth))


def measure(run: majority.run.train.TrainedRun, val: majority.Bags, test: majority.Bags) -> dict:
    of_val, of_test = (log_probabilities(run.classifier, bags) for bags in (val, test))
    segments, labels = Segments(val.sizes), torch.from_numpy(val.labels)
    losses = [label_loss(of_val, segments, labels, t) for t in TEMPERATURES]
    chosen = float(TEMPERATURES[int(np.argmin(losses))])
    errors = [calibration(of_test, test.instance_labels, t) for t in TEMPERATURES]
    return {
        "instance_accuracy": run.metrics["instance_accuracy"],
        "before": calibration(of_test, test.instance_labels, 1.0),
        "temperature": chosen,
        "after": calibration(of_test, test.instance_labels, chosen),
        "best_temperature": float(TEMPERATURES[int(np.argmin(errors))]),  # with the test labels: for comparison only
        "best": min(errors),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("--scenarios", default="")
    parser.add_argument("--methods", default="count,log-mean")
    parser.add_argument("--recipe", default="quick")
    parser.add_argument("--folds", default="0")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    source = majority.load_source(chosen.source)
    for scenario in chosen.scenarios.split(","):
        for fold in parse_folds(chosen.folds):
            choices = {"scenario": scenario} if scenario else {"folds": 5}
            parts = source.make_parts(fold=fold, **choices)
            for method in chosen.methods.split(","):
                started = time.process_time()
                run = majority.train(parts, method=method, recipe=chosen.recipe, device="cpu", verbose=False)
                line = {"source": source.name, "scenario": scenario or None, "fold": fold, "method": method}
                line |= {"recipe": chosen.recipe} | measure(run, parts.val, parts.test)
                line |= {"cpu_seconds": round(time.process_time() - started, 1), "version": majority.__version__}
                with chosen.out.open("a") as file:
                    file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
