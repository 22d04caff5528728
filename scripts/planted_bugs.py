"""Are the tests able to fail? Plant one bug at a time in a copy of the package, and run the tests that should see it.

    python scripts/planted_bugs.py --jobs 2            # all: some minutes
    python scripts/planted_bugs.py "wrong sign" ...    # those whose name has one of these words

A bug is a text of one file and what replaces it. The text must occur once, so that a bug that can no longer be planted
is an error. A line per bug: caught or NOT CAUGHT, its name, and the tests.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

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
        "tests/data/test_segments.py",
    ),
    Bug(
        "weights that are not scaled within their bag",
        "data/segments.py",
        "self.weights / self.spread(self.mean(self.weights))",
        "self.weights / self.weights.mean()",
        "src/majority/data/segments.py",
    ),
    Bug(
        "a swapped index: the loader takes positions of the index as positions in the store",
        "data/loader.py",
        "index = to_device(self.bags.index[layout.positions], self.device)",
        "index = to_device(layout.positions, self.device)",
        "tests/data/test_loader.py",
    ),
    Bug(
        "the same instances of a large bag in every epoch",
        "data/loader.py",
        "draws = rng.random(len(positions))",
        "draws = np.linspace(0, 1, len(positions), endpoint=False)",
        "tests/data/test_loader.py",
    ),
    Bug(
        "lost weights of instances",
        "data/loader.py",
        "weights = per_batch(layout.keep, n_instances), per_batch(_at(self.weights, positions), n_instances)",
        "weights = per_batch(layout.keep, n_instances), per_batch(None, n_instances)",
        "tests/data/test_loader.py",
    ),
    Bug(
        "a background that votes",
        "data/winners.py",
        "    votes = voter_counts(counts, background)\n    winners = votes.argmax(axis=1)",
        "    votes = counts\n    winners = votes.argmax(axis=1)",
        "src/majority/data/winners.py tests/data/test_background.py",
    ),
    Bug(
        "bags of a group in two parts",
        "data/splitting.py",
        "    return part_of[groups]",
        "    return np.roll(part_of[groups], 1)",
        "tests/data/test_bags.py tests/data/test_splitting.py",
    ),
    Bug(
        "rows of a second file that are read as those of the first",
        "data/stores.py",
        "positions[a:b] - self.starts[files[a]]",
        "positions[a:b] % self.sizes[files[a]]",
        "tests/data/test_stores.py",
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
        "tests/training/test_loop.py",
    ),
    Bug(
        "a checkpoint without the state of the optimizer",
        "training/checkpoint.py",
        "    _restore_optimizer(state.optimizer, _states(tensors))",
        "    return",
        "tests/training/test_loop.py",
    ),
    Bug(
        "the sum in place of the mean over the bags of a step",
        "training/steps.py",
        "        losses.mean().backward()",
        "        losses.sum().backward()",
        "tests/training/test_loop.py",
    ),
    Bug(
        "a schedule that is one step late",
        "training/schedule.py",
        "math.cos(math.pi * (step - self.warmup_steps) / falling_steps)",
        "math.cos(math.pi * (step - 1 - self.warmup_steps) / falling_steps)",
        "tests/training/test_loop.py",
    ),
    Bug(
        "the worst epoch is kept",
        "training/loop.py",
        'elif record["val_loss"] < fitted.best_loss:',
        'elif record["val_loss"] > fitted.best_loss or epoch == 0:',
        "tests/training/test_loop.py",
    ),
    Bug(
        "an instance as its own negative in contrastive learning",
        "training/contrastive.py",
        "others = similarity.masked_fill(of_column.unsqueeze(0) == instance.repeat(2).unsqueeze(1), -torch.inf)",
        "others = similarity",
        "tests/training/test_objectives.py",
    ),
    Bug(
        "a labelled instance that counts in each of its bags",
        "data/loader.py",
        "weights[known] = 1 / bags_of[which]",
        "weights[known] = 1",
        "tests/training/test_objectives.py",
    ),
    Bug(
        "a wrong sign of the loss",
        "losses/base.py",
        "return -winner_log_probs(output.bag_log_probs, target.allowed)",
        "return winner_log_probs(output.bag_log_probs, target.allowed)",
        "tests/losses/test_in_any_loop.py tests/losses/test_methods.py",
    ),
    Bug(
        "a wrong sign of the adjustment to the frequency of labels",
        "losses/adjusted.py",
        "phantom) + adjustment).log_softmax",
        "phantom) - adjustment).log_softmax",
        "tests/losses/test_in_any_loop.py tests/losses/test_methods.py",
    ),
    Bug(
        "the temperature is left out",
        "losses/functional.py",
        "return (counts / temperature).log_softmax(dim=1)",
        "return counts.log_softmax(dim=1)",
        "tests/losses/test_methods.py",
    ),
    Bug(
        "the nearest candidates are left out in place of the farthest",
        "recipes/mpem.py",
        "np.argsort(-distance[candidates]",
        "np.argsort(distance[candidates]",
        "tests/recipes/test_mpem.py src/majority/recipes/mpem.py",
    ),
    Bug(
        "batch norm in training mode while predicting",
        "predict/evaluate.py",
        "    model.eval()\n",
        "    model.train()\n",
        "tests/predict/test_classifier.py tests/predict/test_metrics.py",
    ),
    Bug(
        "pieces of a large bag in the wrong place",
        "predict/evaluate.py",
        "        start += len(found)\n",
        "        start = len(found)\n",
        "tests/predict/test_metrics.py tests/predict/test_classifier.py",
    ),
    Bug(
        "a reversed order of classes in predictions",
        "predict/classifier.py",
        "names = self.classes[probabilities.argmax(axis=1)]",
        "names = self.classes[::-1][probabilities.argmax(axis=1)]",
        "tests/predict/test_classifier.py",
    ),
    Bug(
        "a transposed confusion matrix",
        "predict/metrics.py",
        "true * n_classes + predicted",
        "predicted * n_classes + true",
        "tests/predict/test_metrics.py",
    ),
]


def plant(bug: Bug) -> str:
    """Plant the bug in a copy of the package and run its tests: the name of one that fails, or an empty text."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        path = source / "majority" / bug.file
        before = path.read_text(encoding="utf-8")
        if before.count(bug.text) != 1:
            raise SystemExit(f"{bug.name}: its text occurs {before.count(bug.text)} times in {bug.file}, not once")
        path.write_text(before.replace(bug.text, bug.instead), encoding="utf-8")
        tests = [name.replace("src/", f"{source}/") for name in bug.tests.split()]  # doctests of the copy
        paths = os.pathsep.join(filter(None, [str(source), os.environ.get("PYTHONPATH")]))
        environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        words = [sys.executable, "-m", "pytest", "-q", "-x", *tests]
        run = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    failed = [line.split(" - ")[0].split()[-1] for line in run.stdout.splitlines() if line.startswith("FAILED")]
    if run.returncode and not failed:
        raise SystemExit(f"{bug.name}: the tests cannot run:\n{run.stdout[-2000:]}{run.stderr[-500:]}")
    return failed[0] if failed else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    chosen = [bug for bug in BUGS if not given.words or any(word in bug.name for word in given.words)]
    missed = 0
    with ThreadPoolExecutor(given.jobs) as pool:
        for bug, caught in zip(chosen, pool.map(plant, chosen), strict=True):
            missed += not caught
            print(f"caught      {bug.name}: {caught}" if caught else f"NOT CAUGHT  {bug.name}: {bug.tests}", flush=True)
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
