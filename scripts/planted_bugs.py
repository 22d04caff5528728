"""Are the tests able to fail? Plant one bug at a time in a copy of the package, and run the tests that should see it.

    python scripts/planted_bugs.py --jobs 2            # all: some minutes
    python scripts/planted_bugs.py "wrong sign" ...    # those whose name has one of these words

A bug is a text of one file and what replaces it. The text must occur once, so that a bug that can no longer be planted
is an error. A line per bug: its name, and the test that caught it, or NOT CAUGHT.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import os
import shutil
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import hypothesis  # noqa: F401  # these take seconds to import: each process has them from here
import pandas  # noqa: F401
import pytest
import scipy.stats  # noqa: F401
import sklearn.metrics  # noqa: F401
import torch  # noqa: F401

ROOT = Path(__file__).parents[1]


class Bug(NamedTuple):
    name: str
    file: str  # below src/majority
    text: str
    instead: str
    tests: str


BUGS = [
    Bug(
        "wrong divisor of a ragged mean",
        "data/segments.py",
        "self._as_column(self.kept_sizes, values).to(values.dtype)",
        "self._as_column(self.sizes, values).to(values.dtype)",
        "tests/data/test_segments.py::test_rows_that_are_not_kept_change_nothing",
    ),
    Bug(
        "weights that are not scaled within their bag",
        "data/segments.py",
        "self.weights / self.spread(self.mean(self.weights))",
        "self.weights / self.weights.mean()",
        "tests/losses/test_in_any_loop.py::test_a_loss_equals_its_reference",
    ),
    Bug(
        "a swapped index: the loader takes positions of the index as positions in the store",
        "data/loader.py",
        "index = to_device(self.bags.index[layout.positions], self.device)",
        "index = to_device(layout.positions, self.device)",
        "tests/data/test_loader.py::test_in_order_covers_every_bag_once_within_the_limit",
    ),
    Bug(
        "the same instances of a large bag in every epoch",
        "data/loader.py",
        "draws = rng.random(len(positions))",
        "draws = np.linspace(0, 1, len(positions), endpoint=False)",
        "tests/data/test_loader.py::test_other_instances_of_a_large_bag_are_drawn_each_time_with_their_weights",
    ),
    Bug(
        "lost weights of instances",
        "data/loader.py",
        "weights = per_batch(layout.keep, n_instances), per_batch(_at(self.weights, positions), n_instances)",
        "weights = per_batch(layout.keep, n_instances), per_batch(None, n_instances)",
        "tests/data/test_loader.py::test_other_instances_of_a_large_bag_are_drawn_each_time_with_their_weights",
    ),
    Bug(
        "a background that votes",
        "data/winners.py",
        "    votes = voter_counts(counts, background)\n    winners = votes.argmax(axis=1)",
        "    votes = counts\n    winners = votes.argmax(axis=1)",
        "tests/data/test_background.py::test_bags_are_predicted_by_their_voters",
    ),
    Bug(
        "bags of a group in two parts",
        "data/splitting.py",
        "    return part_of[groups]",
        "    return np.roll(part_of[groups], 1)",
        "tests/data/test_bags.py::test_split_never_divides_a_group",
    ),
    Bug(
        "rows of a second file that are read as those of the first",
        "data/stores.py",
        "positions[a:b] - self.starts[files[a]]",
        "positions[a:b] % self.sizes[files[a]]",
        "tests/data/test_stores.py::test_a_store_of_files_is_the_array_of_their_rows",
    ),
    Bug(
        "an off-by-one in folds: test instances in training bags",
        "io/benchmarks/labelled.py",
        '"train": np.concatenate(rotated[2:])',
        '"train": np.concatenate([*rotated[3:], rotated[0]])',
        "tests/io/benchmarks/test_labelled.py",
    ),
    Bug(
        "leaked instance labels",
        "training/validation.py",
        "        return bags.without_instance_labels()",
        "        return bags",
        "tests/training/test_loop.py::test_instance_labels_do_not_reach_training",
    ),
    Bug(
        "a checkpoint without the state of the optimizer",
        "training/checkpoint.py",
        "    _restore_optimizer(state.optimizer, _states(tensors))",
        "    return",
        "tests/training/test_loop.py::test_an_interrupted_training_ends_with_the_same_weights",
    ),
    Bug(
        "the sum in place of the mean over the bags of a step",
        "training/steps.py",
        "        losses.mean().backward()",
        "        losses.sum().backward()",
        "tests/training/test_loop.py::test_the_loop_is_a_plain_loop",
    ),
    Bug(
        "a schedule that is one step late",
        "training/schedule.py",
        "math.cos(math.pi * (step - self.warmup_steps) / falling_steps)",
        "math.cos(math.pi * (step - 1 - self.warmup_steps) / falling_steps)",
        "tests/training/test_loop.py::test_the_cosine_schedule_rises_to_the_rate_and_falls_to_zero",
    ),
    Bug(
        "the worst epoch is kept",
        "training/loop.py",
        'elif record["val_loss"] < fitted.best_loss:',
        'elif record["val_loss"] > fitted.best_loss or epoch == 0:',
        "tests/training/test_loop.py::test_the_model_is_left_at_the_epoch_of_lowest_validation_loss",
    ),
    Bug(
        "an instance as its own negative in contrastive learning",
        "training/contrastive.py",
        "others = similarity.masked_fill(of_column.unsqueeze(0) == instance.repeat(2).unsqueeze(1), -torch.inf)",
        "others = similarity",
        "tests/training/test_objectives.py::test_contrastive_losses_are_the_plain_ones",
    ),
    Bug(
        "a labelled instance that counts in each of its bags",
        "data/loader.py",
        "weights[known] = 1 / bags_of[which]",
        "weights[known] = 1",
        "tests/training/test_objectives.py::test_the_loss_of_instance_labels_counts_every_instance_once",
    ),
    Bug(
        "a wrong sign of the loss",
        "losses/voting.py",
        "losses = -winner_log_probs(scores, target.allowed)",
        "losses = winner_log_probs(scores, target.allowed)",
        "tests/losses/test_in_any_loop.py::test_a_loss_equals_its_reference",
    ),
    Bug(
        "a wrong sign of the loss of a class of one's own",
        "losses/base.py",
        "return -winner_log_probs(output.bag_log_probs, target.allowed)",
        "return winner_log_probs(output.bag_log_probs, target.allowed)",
        "tests/losses/test_in_any_loop.py::test_a_loss_of_one_s_own_needs_only_its_prediction",
    ),
    Bug(
        "a wrong sign of the adjustment to the frequency of labels",
        "losses/adjusted.py",
        "phantom) + adjustment).log_softmax",
        "phantom) - adjustment).log_softmax",
        "tests/losses/test_methods.py::test_a_method_equals_its_reference_bag_by_bag",
    ),
    Bug(
        "the temperature is left out",
        "losses/functional.py",
        "return (counts / temperature).log_softmax(dim=1)",
        "return counts.log_softmax(dim=1)",
        "tests/losses/test_methods.py::test_a_method_equals_its_reference_bag_by_bag",
    ),
    Bug(
        "the nearest candidates are left out in place of the farthest",
        "recipes/mpem.py",
        "np.argsort(-distance[candidates]",
        "np.argsort(distance[candidates]",
        "tests/recipes/test_mpem.py::test_who_is_counted_is_what_a_plain_loop_says",
    ),
    Bug(
        "batch norm in training mode while predicting",
        "predict/evaluate.py",
        "    model.eval()\n",
        "    model.train()\n",
        "tests/predict/test_metrics.py::test_evaluation_is_the_same_as_one_bag_at_a_time",
    ),
    Bug(
        "pieces of a large bag in the wrong place",
        "predict/evaluate.py",
        "        start += len(found)\n",
        "        start = len(found)\n",
        "tests/predict/test_metrics.py::test_evaluation_is_the_same_as_one_bag_at_a_time",
    ),
    Bug(
        "a reversed order of classes in predictions",
        "predict/classifier.py",
        "names = self.classes[probabilities.argmax(axis=1)]",
        "names = self.classes[::-1][probabilities.argmax(axis=1)]",
        "tests/predict/test_classifier.py::test_instances_are_classified_one_by_one",
    ),
    Bug(
        "a transposed confusion matrix",
        "predict/metrics.py",
        "true * n_classes + predicted",
        "predicted * n_classes + true",
        "tests/predict/test_metrics.py",
    ),
]


class Failures:
    """A plugin of pytest that notes which tests failed, and how many passed."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.passed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.passed += report.when == "call" and report.passed
        if report.failed:
            self.failed.append(report.nodeid)


def plant(bug: Bug) -> str:
    """Plant the bug in a copy of the package and run its tests: the name of one that fails, or an empty text."""
    noted, printed = Failures(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(printed):
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        path = source / "majority" / bug.file
        before = path.read_text(encoding="utf-8")
        path.write_text(before.replace(bug.text, bug.instead), encoding="utf-8")
        sys.path.insert(0, str(source))
        pytest.main(["-q", "-x", *bug.tests.split()], plugins=[noted])
        if before.count(bug.text) != 1 or not (noted.failed or noted.passed):
            return f"CANNOT RUN: its text occurs {before.count(bug.text)} times; {printed.getvalue()[-2000:]}"
    return noted.failed[0] if noted.failed else "NOT CAUGHT"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    chosen = [bug for bug in BUGS if not given.words or any(word in bug.name for word in given.words)]
    os.chdir(ROOT)
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    missed = 0
    with multiprocessing.get_context("fork").Pool(given.jobs, maxtasksperchild=1) as pool:  # a new import for each
        for bug, test in zip(chosen, pool.imap(plant, chosen, chunksize=1), strict=True):
            missed += test.startswith(("NOT CAUGHT", "CANNOT RUN"))
            print(f"{bug.name}: {test}", flush=True)
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
