"""Are the tests able to fail? Plant one bug at a time in a copy of the package, and run the test that should see it.

    python scripts/planted_bugs.py --jobs 2            # all: some minutes
    python scripts/planted_bugs.py "wrong sign" ...    # those whose name has one of these words
    python scripts/planted_bugs.py --check             # only whether all can be planted, and their tests exist

A bug is a text and what replaces it. The text must occur once in the package, wherever that is and however its lines
are broken; a bug that can no longer be planted, or whose test is gone, is an error. A line per bug: its name, and the
test that caught it, or NOT CAUGHT.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import os
import re
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
    text: str
    instead: str
    test: str  # the name of its function
    file: str = ""  # how the path ends, where the text occurs in several

    def place(self) -> tuple[Path, re.Match[str]]:
        """The file below src, and where in it the text is."""
        words = re.findall(r"\w+|[^\w\s]", self.text)
        pattern = re.compile(r"\s*".join(map(re.escape, words)))
        package = ROOT / "src"
        files = [file for file in sorted(package.rglob("*.py")) if file.as_posix().endswith(self.file)]
        texts = {file.relative_to(package): file.read_text(encoding="utf-8") for file in files}
        found = [(file, match) for file, text in texts.items() for match in pattern.finditer(text)]
        if len(found) != 1:
            raise LookupError(f"its text occurs {len(found)} times {[str(file) for file, _ in found]}")
        return found[0]

    def tests(self) -> str:
        files = [path for path in (ROOT / "tests").rglob("test_*.py") if f"def {self.test}(" in path.read_text("utf-8")]
        if len(files) != 1:
            raise LookupError(f"there are {len(files)} tests {self.test}")
        return f"{files[0].relative_to(ROOT)}::{self.test}"


BUGS = [
    Bug(
        "wrong divisor of a ragged mean",
        "self._as_column(self.kept_sizes, values).to(values.dtype)",
        "self._as_column(self.sizes, values).to(values.dtype)",
        "test_rows_that_are_not_kept_change_nothing",
    ),
    Bug(
        "weights that are not scaled within their bag",
        "self.weights / self.spread(self.mean(self.weights))",
        "self.weights / self.weights.mean()",
        "test_a_loss_equals_its_reference",
    ),
    Bug(
        "a swapped index: the loader takes positions of the index as positions in the store",
        "index = to_device(self.bags.index[layout.positions], self.device)",
        "index = to_device(layout.positions, self.device)",
        "test_in_order_covers_every_bag_once_within_the_limit",
    ),
    Bug(
        "the same instances of a large bag in every epoch",
        "draws = rng.random(len(positions))",
        "draws = np.linspace(0, 1, len(positions), endpoint=False)",
        "test_other_instances_of_a_large_bag_are_drawn_each_time_with_their_weights",
    ),
    Bug(
        "lost weights of instances",
        "per_batch(take(self.weights, positions), n_instances)",
        "per_batch(None, n_instances)",
        "test_other_instances_of_a_large_bag_are_drawn_each_time_with_their_weights",
    ),
    Bug(
        "a background that votes",
        "votes = voter_counts(counts, background) winners = votes.argmax(axis=1)",
        "votes = counts; winners = votes.argmax(axis=1)",
        "test_bags_are_predicted_by_their_voters",
    ),
    Bug(
        "bags of a group in two parts",
        "return part_of[groups]",
        "return np.roll(part_of[groups], 1)",
        "test_split_never_divides_a_group",
    ),
    Bug(
        "rows of a second file that are read as those of the first",
        "positions[a:b] - self.starts[files[a]]",
        "positions[a:b] % self.sizes[files[a]]",
        "test_a_store_of_files_is_the_array_of_their_rows",
    ),
    Bug(
        "an off-by-one in folds: test instances in training bags",
        '"train": np.concatenate(rotated[2:])',
        '"train": np.concatenate([*rotated[3:], rotated[0]])',
        "test_a_fold_is_for_testing_the_next_for_validation_and_the_rest_for_training",
    ),
    Bug(
        "leaked instance labels",
        "return bags.without_instance_labels()",
        "return bags",
        "test_instance_labels_do_not_reach_training",
    ),
    Bug(
        "a checkpoint without the state of the optimizer",
        'self.optimizer.load_state_dict({"state": moments, "param_groups": groups})',
        "return",
        "test_an_interrupted_training_ends_with_the_same_weights",
    ),
    Bug(
        "the sum in place of the mean over the bags of a step",
        "losses.mean().backward()",
        "losses.sum().backward()",
        "test_the_loop_is_a_plain_loop",
    ),
    Bug(
        "a schedule that is one step late",
        "math.cos(math.pi * (step - warmup) / falling)",
        "math.cos(math.pi * (step - 1 - warmup) / falling)",
        "test_the_cosine_schedule_rises_to_the_rate_and_falls_to_zero",
    ),
    Bug(
        "the worst epoch is kept",
        "elif loss < fitted.best_loss:",
        "elif loss > fitted.best_loss or epoch == 0:",
        "test_the_model_is_left_at_the_epoch_of_lowest_validation_loss",
    ),
    Bug(
        "an instance as its own negative in contrastive learning",
        "others = similarity.masked_fill(of_column.unsqueeze(0) == own.repeat(2).unsqueeze(1), -torch.inf)",
        "others = similarity",
        "test_contrastive_losses_are_the_plain_ones",
    ),
    Bug(
        "a labelled instance that counts in each of its bags",
        "weights[known] = 1 / bags_of[which]",
        "weights[known] = 1",
        "test_the_loss_of_instance_labels_counts_every_instance_once",
    ),
    Bug(
        "a wrong sign of the loss",
        "losses = -winner_log_probs(scores, target.allowed)",
        "losses = winner_log_probs(scores, target.allowed)",
        "test_a_loss_equals_its_reference",
    ),
    Bug(
        "a wrong sign of the loss of a class of one's own",
        "return -winner_log_probs(output.bag_log_probs, target.allowed)",
        "return winner_log_probs(output.bag_log_probs, target.allowed)",
        "test_a_loss_of_one_s_own_needs_only_its_prediction",
        "losses/base.py",
    ),
    Bug(
        "a wrong sign of the adjustment to the frequency of labels",
        "phantom) + adjustment).log_softmax",
        "phantom) - adjustment).log_softmax",
        "test_a_method_equals_its_reference_bag_by_bag",
    ),
    Bug(
        "the temperature is left out",
        "return (counts / temperature).log_softmax(dim=1)",
        "return counts.log_softmax(dim=1)",
        "test_a_method_equals_its_reference_bag_by_bag",
    ),
    Bug(
        "the nearest candidates are left out in place of the farthest",
        "np.argsort(-distance[candidates]",
        "np.argsort(distance[candidates]",
        "test_who_is_counted_is_what_a_plain_loop_says",
    ),
    Bug(
        "batch norm in training mode while predicting",
        "model.eval()",
        "model.train()",
        "test_evaluation_is_the_same_as_one_bag_at_a_time",
    ),
    Bug(
        "pieces of a large bag in the wrong place",
        "start += len(found)",
        "start = len(found)",
        "test_evaluation_is_the_same_as_one_bag_at_a_time",
    ),
    Bug(
        "a reversed order of classes in predictions",
        "names = self.classes[probabilities.argmax(axis=1)]",
        "names = self.classes[::-1][probabilities.argmax(axis=1)]",
        "test_instances_are_classified_one_by_one",
    ),
    Bug(
        "a transposed confusion matrix",
        "true * n_classes + predicted",
        "predicted * n_classes + true",
        "test_evaluation_is_the_same_as_one_bag_at_a_time",
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
    """Plant the bug in a copy of the package and run its test: the name of one that fails, or an empty text."""
    noted, printed = Failures(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(printed):
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        try:
            (file, match), tests = bug.place(), bug.tests()
        except LookupError as error:
            return f"CANNOT RUN: {error}"
        text = (source / file).read_text(encoding="utf-8")
        (source / file).write_text(text[: match.start()] + bug.instead + text[match.end() :], encoding="utf-8")
        sys.path.insert(0, str(source))
        pytest.main(["-q", "-x", tests], plugins=[noted])
    if not (noted.failed or noted.passed):
        return f"CANNOT RUN: {printed.getvalue()[-2000:]}"
    return noted.failed[0] if noted.failed else "NOT CAUGHT"


def check(bug: Bug) -> str:
    try:
        return f"{bug.place()[0]}, {bug.tests()}"
    except LookupError as error:
        return f"CANNOT RUN: {error}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    chosen = [bug for bug in BUGS if not given.words or any(word in bug.name for word in given.words)]
    os.chdir(ROOT)
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    missed = 0
    with multiprocessing.get_context("fork").Pool(given.jobs, maxtasksperchild=1) as pool:  # a new import for each
        for bug, test in zip(chosen, pool.imap(check if given.check else plant, chosen, chunksize=1), strict=True):
            missed += test.startswith(("NOT CAUGHT", "CANNOT RUN"))
            print(f"{bug.name}: {test}", flush=True)
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
