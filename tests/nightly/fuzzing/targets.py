"""What the fuzzer changes: valid files of every kind, and the command or the call that reads each of them."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np


class Target(NamedTuple):
    name: str
    folder: str  # below the folder of seeds; copied for every input
    file: str  # the file that is changed, below it
    call: Callable[[Path], object]  # with the copy of the folder


def command(*words: object) -> int:
    """Run the command in this process."""
    from majority.cli.app import main

    before, sys.argv = sys.argv, ["majority", *map(str, words)]
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            main()
    except SystemExit as stopped:
        code = stopped.code or 0
    finally:
        sys.argv = before
    if code not in (0, 1, 2):
        raise AssertionError(f"exit code {code}")
    return int(code)


def write_seeds(folder: Path) -> list[Target]:
    """Write valid files of every kind, small enough to be read in milliseconds; return what reads them."""
    import pandas as pd
    from PIL import Image

    from majority import Classifier
    from majority import train as train_run

    rng = np.random.default_rng(0)
    labels = np.repeat(["a", "b", "c"] * 8, 5)
    frame = pd.DataFrame({"bag": np.repeat([f"bag-{i}" for i in range(24)], 5), "bag_label": labels})
    for i in range(3):
        frame[f"f{i}"] = rng.normal(size=120).round(3) + (labels == "abc"[i])
    frame["instance_label"] = np.where(rng.random(120) < 0.8, labels, "a")
    frame["x"], frame["y"] = rng.integers(0, 9, 120), rng.integers(0, 9, 120)
    tables = folder / "tables"
    tables.mkdir()
    frame.to_csv(tables / "bags.csv", index=False)
    frame.to_parquet(tables / "bags.parquet", index=False)
    source = str(tables / "bags.csv")

    def experiment(recipe: str, out: Path, **more: Any) -> None:
        settings = {"census.teacher_epochs": 1} if recipe == "census" else {}
        options = {"features": ["f0", "f1", "f2"], "method": "log-mean", "recipe": recipe, "epochs": 3, "refit": False}
        train_run(source, **options, settings=settings, device="cpu", verbose=False, out=out, **more)

    experiment("quick", folder / "run/run")
    _interrupt(partial(experiment, "quick"), folder / "half/run", epochs=2)
    _interrupt(partial(experiment, "census"), folder / "staged/run", stages=3)
    train = ["--features", "f0,f1,f2", "--method", "log-mean", "--epochs", 3, "--device", "cpu", "--out"]

    def train_again(recipe: str) -> Callable[[Path], int]:
        more = ["--set", "census.teacher_epochs=1"] if recipe == "census" else []
        return lambda work: command("train", source, "--recipe", recipe, *more, *train, work / "run")

    targets = [
        *(
            Target(f"{name} of a {kind} run: {word}", kind, f"run/{name}", call)
            for kind, name, word, call in (
                ("run", "config.json", "evaluate", lambda work: command("evaluate", work / "run", "--device", "cpu")),
                ("run", "config.json", "predict", _predict(source)),
                ("run", "config.json", "report", lambda work: command("report", work / "run")),
                ("run", "config.json", "train", train_again("quick")),
                ("run", "result.json", "report", lambda work: command("report", work / "run")),
                ("run", "result.json", "train", train_again("quick")),
                ("run", "metrics.jsonl", "report", lambda work: command("report", work / "run")),
                ("run", "best.safetensors", "predict", _predict(source)),
                ("run", "best.safetensors", "load", lambda work: Classifier.load(work / "run/best.safetensors", "cpu")),
                ("half", "config.json", "train", train_again("quick")),
                ("half", "metrics.jsonl", "train", train_again("quick")),
                ("half", "checkpoint.safetensors", "train", train_again("quick")),
            )
        ),
        *(
            Target(f"{name} of a stage: train", "staged", f"run/stages/{stage}/{name}", train_again("census"))
            for stage in sorted(path.parent.name for path in (folder / "staged").glob("run/stages/*/metrics.jsonl"))[:1]
            for name in ("outcome.json", "metrics.jsonl", "weights.safetensors")
        ),
        *(
            Target(f"{name}: check", "tables", name, lambda work, name=name: command("check", work / name))
            for name in ("bags.csv", "bags.parquet")
        ),
        Target("bags.csv: predict", "tables", "bags.csv", _predict_other(folder / "run/run")),
    ]
    targets += _study_targets(folder, rng)
    targets += _feature_targets(folder, rng)
    targets += _image_targets(folder, rng, Image)
    targets += _weights_targets(folder)
    return targets


def _predict(source: str) -> Callable[[Path], int]:
    return lambda work: command("predict", work / "run", source, "--device", "cpu", "--out", work / "predicted.csv")


def _predict_other(run: Path) -> Callable[[Path], int]:
    return lambda work: command("predict", run, work / "bags.csv", "--device", "cpu", "--out", work / "predicted.csv")


def _interrupt(train: Callable[..., None], folder: Path, epochs: int = 0, stages: int = 0) -> None:
    """Leave the run folder of a training that was interrupted."""
    from majority import Callback
    from majority.training import run_files

    left = {"epochs": epochs or 10**9, "stages": stages or 10**9}

    class Interrupt(Callback):
        def on_epoch_end(self, record: dict[str, Any]) -> None:
            self.count("epochs")

        def on_stage_end(self, name: str, fitted: object) -> None:
            self.count("stages")

        def count(self, what: str) -> None:
            left[what] -= 1
            if left[what] == 0:
                raise KeyboardInterrupt

    try:
        with mock.patch.object(run_files, "CHECKPOINT_SECONDS", 0):  # a checkpoint after every epoch
            train(folder, callbacks=[Interrupt()])
    except KeyboardInterrupt:
        return
    raise AssertionError(f"{folder} ended before it could be interrupted")


def _study_targets(folder: Path, rng: Any) -> list[Target]:
    images = rng.integers(0, 256, (150, 4, 4), np.uint8)
    arrays = {
        f"{part}_{what}": images if what == "images" else np.arange(150) % 3
        for part in ("train", "test")
        for what in ("images", "labels")
    }
    (folder / "sets").mkdir()
    source = folder / "sets/set.npz"
    np.savez(source, **arrays)
    from scipy.io import savemat

    digits = {"X": rng.integers(0, 256, (4, 4, 3, 60)).astype(np.uint8), "y": (np.arange(60) % 3 + 1)[:, None]}
    savemat(folder / "sets/set.mat", digits)
    savemat(folder / "sets/compressed.mat", digits, do_compression=True)
    from majority.run.experiment import How, run_experiment
    from majority.run.study.grid import study_cells, write_request
    from majority.run.study_config import StudyConfig

    grid = {"scenarios": ("large",), "methods": ("log-mean", "vote"), "folds": (0, 1)}
    options = {"bags": 8, "bag_size": 4, "recipe": "quick", "epochs": 2}
    study = StudyConfig(sources=(str(source),), **grid, options=options)
    out = folder / "study/study"
    cells = [*study_cells(study, out)]
    for place, cell in cells:
        if (cell.config.method, cell.config.bags.fold) != ("vote", 1):  # one cell is missing
            run_experiment(cell.config, place, How("cpu"))
    write_request(study, cells, out)
    command("report", out)
    (folder / "lines").mkdir()
    from majority.run.study.results import save_results

    shutil.copy(save_results(out), folder / "lines/results.jsonl")
    cell = "set/large/log-mean/fold0"
    words = ["study", source, "--scenarios", "large", "--methods", "log-mean", "--folds", "0,1", "--recipe", "quick"]
    words += ["--bags", 8, "--bag-size", 4, "--epochs", 2, "--device", "cpu", "--out"]
    return [
        Target("study.json: report", "study", "study/study.json", lambda work: command("report", work / "study")),
        *(
            Target(
                f"{name} of a cell: report",
                "study",
                f"study/{cell}/{name}",
                lambda work: command("report", work / "study"),
            )
            for name in ("result.json", "metrics.jsonl")
        ),
        *(
            Target(
                f"{name} of a cell: study",
                "study",
                f"study/{cell}/{name}",
                lambda work: command(*words, work / "study"),
            )
            for name in ("config.json", "result.json")
        ),
        Target(
            "results.jsonl: report", "lines", "results.jsonl", lambda work: command("report", work / "results.jsonl")
        ),
        *(
            Target(f"{name}: check", "sets", name, lambda work, name=name: command("check", work / name))
            for name in ("set.npz", "set.mat", "compressed.mat")
        ),
    ]


def _feature_targets(folder: Path, rng: Any) -> list[Target]:
    import h5py
    import torch

    place = folder / "features/features"
    place.mkdir(parents=True)
    names = ["one.npy", "two.npz", "three.h5", "four.pt"]
    for name in names:
        features = rng.normal(size=(6, 3)).astype(np.float32)
        if name.endswith("npy"):
            np.save(place / name, features)
        elif name.endswith("npz"):
            np.savez_compressed(place / name, features=features)
        elif name.endswith("pt"):
            torch.save({"features": torch.from_numpy(features)}, place / name)
        else:
            with h5py.File(place / name, "w") as file:
                file.create_dataset("features", data=features, compression="gzip")
    (place / "labels.csv").write_text("bag,label\none,a\ntwo,b\nthree,a\nfour,b\n")
    words = ["--recipe", "quick", "--method", "log-mean", "--epochs", 1, "--device", "cpu", "--out"]
    return [
        Target(f"{name}: {word}", "features", f"features/{name}", call)
        for name in (*names, "labels.csv")
        for word, call in (
            ("check", lambda work: command("check", work / "features")),
            ("train", lambda work: command("train", work / "features", *words, work / "run")),
        )
    ]


def _image_targets(folder: Path, rng: Any, image: Any) -> list[Target]:
    place = folder / "images"
    place.mkdir()
    names = ["a.png", "b.jpg", "c.tif", "d.webp"]
    for name in names:
        image.fromarray(rng.integers(0, 256, (9, 8, 3), np.uint8)).save(place / name)
    rows = [
        f"{bag},{label},{name}" for bag, label in (("p", "a"), ("q", "b"), ("r", "a"), ("s", "b")) for name in names
    ]
    (place / "manifest.csv").write_text("bag,bag_label,path\n" + "\n".join(rows) + "\n")
    return [
        Target(f"{name}: check", "images", name, lambda work: command("check", work / "manifest.csv"))
        for name in (*names, "manifest.csv")
    ]


def _weights_targets(folder: Path) -> list[Target]:
    import torch
    from safetensors.torch import save_file

    from majority.nn.weights import load_weights

    place = folder / "weights"
    place.mkdir()
    network = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2))
    save_file(network.state_dict(), place / "weights.safetensors")
    torch.save(network.state_dict(), place / "weights.pt")
    return [
        Target(f"{name} of a backbone", "weights", name, lambda work, name=name: load_weights(network, work / name))
        for name in ("weights.safetensors", "weights.pt")
    ]
