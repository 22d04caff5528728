"""Images listed in a manifest, a row an image -> a classifier of single images, and a table of predictions.

    python examples/images_in_bags.py

Here the images are scikit-learn's digits written out as PNG files; with your own, begin at `load_source`. The same
from the command: `majority check bags.csv`, `majority train bags.csv`, `majority predict RUN new.csv`.
"""

import tempfile
import time
from pathlib import Path

from write_digits import write_digits

import majority
from majority.inference.prediction_files import write_predictions


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        manifest = write_digits(Path(place))

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
        out = Path(place) / "predictions.csv"
        write_predictions(out, majority.Classifier(model), {"test": test}, source)
        print("".join(out.read_text().splitlines(keepends=True)[:4]), end="")


if __name__ == "__main__":
    main()
