"""Write handwritten digits as a folder of PNG files and a manifest, bags.csv, with one row per image.

    python examples/write_digits.py example

300 bags of 16 digits (from scikit-learn, no download): 200 for training, 50 for validation, 50 for testing. The column
`label`, the true digit of each image, is for evaluation only; training uses `bag_label`.
"""

import csv
import sys
from pathlib import Path

from PIL import Image

import majority


def write_digits(folder: Path) -> Path:
    """Write the images and return the manifest."""
    parts = majority.load_source("digits").make_parts(scenario="large", fold=1, bags=200, bag_size=16)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = folder / "bags.csv"
    with manifest.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["bag", "bag_label", "split", "path", "label"])
        for split, bags in parts._asdict().items():
            for i in range(len(bags)):
                name, bag_label = f"{split}{i}", bags.classes[bags.labels[i]]
                (folder / name).mkdir(exist_ok=True)
                true_digits = bags.instance_labels[bags.offsets[i] : bags.offsets[i + 1]]
                for j, (pixels, digit) in enumerate(zip(bags.bag(i), true_digits, strict=True)):
                    path = f"{name}/{j}.png"
                    Image.fromarray(pixels[:, :, 0]).save(folder / path)  # grey, 8 x 8
                    table.writerow([name, bag_label, split, path, bags.classes[digit]])
    return manifest


if __name__ == "__main__":
    print(write_digits(Path(sys.argv[1] if len(sys.argv) > 1 else "example")))
