"""Train a classifier of single rows from feature files, one per bag, and a table of labels.

    python examples/feature_files.py

The features here are the pixels of scikit-learn's digits. With your own files, start at `load_source`. The same on the
command line: `majority check slides`, `majority train slides`, `majority predict RUN new-slides`.
"""

import csv
import tempfile
import time
from pathlib import Path

import numpy as np

import majority


def write_digits(folder: Path) -> None:
    """Write 300 bags of 32 digits: one .npy file per bag, and labels.csv with bag, label and split."""
    with (folder / "labels.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["bag", "label", "split"])
        for split, bags in majority.load_source("digits").make_parts(fold=1)._asdict().items():
            for i in range(len(bags)):
                features = bags.bag(i).reshape(-1, 64).astype(np.float16) / 16  # (n, d)
                np.save(folder / f"{split}{i}.npy", features)
                table.writerow([f"{split}{i}", bags.classes[bags.labels[i]], split])


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_digits(folder)

        start = time.perf_counter()
        train, val, test = majority.load_source(folder).make_parts()  # the splits of labels.csv
        model = majority.build_model(train)
        majority.fit(model, train, val, title="feature files")
        figures = majority.evaluate(model, test).summary()
        seconds = time.perf_counter() - start

        print(f"{train}")
        print(f"bag accuracy {figures['bag_accuracy']:.3f}, {seconds:.1f} s from files to figures")
        classifier = majority.Classifier(model)
        print(f"the first five rows of {test.names[0]}: {', '.join(classifier.predict(test.bag(0)[:5]))}")


if __name__ == "__main__":
    main()
