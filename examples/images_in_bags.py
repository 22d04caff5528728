"""Train a classifier of single images from a manifest with one row per image, and write its predictions.

    python examples/images_in_bags.py

The images here are scikit-learn's digits, written as PNG files. With your own images, start at `load_source`. The same
on the command line: `majority check bags.csv`, `majority train bags.csv`, `majority predict RUN new.csv`.
"""

import tempfile
import time
from pathlib import Path

from write_digits import write_digits

import majority


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        manifest = write_digits(Path(folder))

        start = time.perf_counter()
        source = majority.load_source(manifest)
        print(f"{source.bags}: read in {time.perf_counter() - start:.1f} s")
        train, val, test = source.make_parts()
        model = majority.build_model(train)
        majority.fit(model, train, val, title="images in bags")
        figures = majority.evaluate(model, test).summary()
        print(
            f"bag accuracy {figures['bag_accuracy']:.3f}, instance accuracy {figures['instance_accuracy']:.3f} on "
            f"{len(test)} test bags, {time.perf_counter() - start:.1f} s from files to figures"
        )
        out = Path(folder) / "predictions.csv"
        majority.io.predictions.write_predictions(out, majority.Classifier(model), {"test": test}, source)
        print("".join(out.read_text().splitlines(keepends=True)[:4]), end="")


if __name__ == "__main__":
    main()
