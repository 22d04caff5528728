"""Census on the features of a pretrained network, on a CPU: the time to embed the images, and to train each fold.

    python benchmarks/embed.py cifar10 --model lite0.onnx --mean 0.498 --std 0.502 --folds 0-4 --out results/embed

All images are embedded once, into OUT/SOURCE.npy (not kept in the repository; benchmarks/labels.py --features takes
it), then each fold is trained. Folds and bags are those of the source itself. Each line of OUT/runs.jsonl is one
training; a training that has a line is not run again. OUT/embedding.json has the facts and the time of the features.
Measured: results/README.md.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image
from provenance import commit

from majority.cli.options import parse_folds
from majority.files import append_line, read_json, read_lines, write_atomically, write_json
from majority.io import LabelledSet, load
from majority.io.encoders import Network, open_network
from majority.run.config import RunConfig
from majority.run.experiment import How, run_experiment
from majority.run.folder import environment

BLOCK = 512  # images that are resized together


def resized(images: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """As `majority embed` reads image files: bilinear, by Pillow."""
    height, width, channels = shape
    mode = "L" if channels == 1 else "RGB"
    pictures = [Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).convert(mode) for image in images]
    method = Image.Resampling.BILINEAR
    return np.stack([np.asarray(picture.resize((width, height), method)).reshape(shape) for picture in pictures])


def embedded(images: np.ndarray, network: Network) -> np.ndarray:  # (N, d)
    features = np.empty((len(images), network.embedding.features), np.float32)
    for start in range(0, len(images), BLOCK):
        block = slice(start, start + BLOCK)
        features[block] = network(resized(images[block], network.embedding.image_shape))
        print(f"\r{min(start + BLOCK, len(images)):,} of {len(images):,} images", end="", flush=True)
    print()
    return features


def save(path: Path, features: np.ndarray) -> None:
    with path.open("wb") as file:
        np.save(file, features)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--model", required=True)
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--mean", type=float, nargs="+")
    parser.add_argument("--std", type=float, nargs="+")
    parser.add_argument("--scenario", default="small")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--recipe", default="census")
    parser.add_argument("--folds", type=parse_folds, default="0-4")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    source = load(arguments.source)
    assert isinstance(source, LabelledSet)
    network = open_network(
        arguments.model, image_size=arguments.image_size, mean=arguments.mean, std=arguments.std, device="cpu"
    )
    file, facts_file = arguments.out / f"{source.name}.npy", arguments.out / "embedding.json"
    made = {"source": source.name} | network.embedding._asdict() | {"model": Path(network.embedding.model).name}
    made = json.loads(json.dumps(made))  # with lists, as they are read
    kept = read_json(facts_file) if facts_file.exists() else {}
    if kept and any(kept.get(name, made[name]) != made[name] for name in made):
        raise SystemExit(f"{facts_file} names other images or another model: choose another --out")
    if not file.exists():
        started = time.process_time()
        features = embedded(source.store, network)
        facts = {"images": len(features), "cpu_seconds": round(time.process_time() - started, 1)}
        write_json(facts_file, made | facts | {"environment": environment(), "commit": commit()})
        write_atomically(file, lambda path: save(path, features))
    vectors = replace(source, name=f"{source.name}-features", store=np.load(file))
    lines = arguments.out / "runs.jsonl"
    done = {tuple(line[name] for name in ("scenario", "method", "recipe", "fold")) for line in read_lines(lines)}
    for fold in arguments.folds:
        if (arguments.scenario, arguments.method, arguments.recipe, fold) in done:
            continue
        options = {"scenario": arguments.scenario, "method": arguments.method, "recipe": arguments.recipe}
        config = RunConfig.from_options(arguments.source, fold=fold, **options)
        with TemporaryDirectory() as folder:
            before = time.process_time()
            result = run_experiment(config, Path(folder) / "run", How("cpu"), vectors)
            seconds = round(time.process_time() - before, 1)
        append_line(lines, result | {"cpu_seconds": seconds, "commit": commit()})
        print(fold, result["test"]["instance_accuracy"], f"{seconds} CPU s", flush=True)


if __name__ == "__main__":
    main()
