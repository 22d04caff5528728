"""What the fuzzer changes: valid files of every kind, and the command or the call that reads each of them."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

QUICK = "--recipe quick --method log-mean --device cpu"


class Target(NamedTuple):
    name: str
    folder: str  # below the folder of seeds; copied for every input
    file: str  # the file that is changed, below it
    call: Callable[[Path], object]  # with the copy of the folder


def command(words: str, **places: Path) -> int:
    """Run the command in this process; words such as WORK/run are in the place of this name."""
    from majority.cli.app import main

    given = [word for word in words.split() if word]
    for name, place in places.items():
        given = [word.replace(name, str(place)) for word in given]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), mock.patch.object(sys, "argv", ["", *given]):
        try:
            main()
        except SystemExit as stopped:
            code = stopped.code or 0
    if code not in (0, 1, 2):
        raise AssertionError(f"exit code {code}")
    return int(code)


def write_seeds(folder: Path) -> list[Target]:
    """Write valid files of every kind, small enough to be read in milliseconds; return what reads them."""
    rng = np.random.default_rng(0)
    (folder / "tables").mkdir()
    source = _write_table(folder / "tables", rng)
    train = "train SOURCE --features f0,f1,f2 --method log-mean --epochs 3 --device cpu --out WORK/run --recipe {}"
    census = train.format("census --set census.teacher_epochs=1 --no-refit")
    learn = train.format("quick").replace("WORK/run", "WORK/new")
    train = train.format("quick --no-refit")
    predict = "predict WORK/run SOURCE --device cpu --out WORK/predicted.csv"
    _train(source, "quick", folder / "run/run")
    _train(source, "quick", folder / "half/run", "on_epoch_end", 2)
    _train(source, "census", folder / "staged/run", "on_stage_end", 7)
    _write_answers(source, folder / "answered")
    _write_study(folder, rng)
    _write_features(folder / "features/features", rng)
    _write_images(folder / "images", rng)
    cell = "study/set/large/log-mean/fold0"
    study = "study SETS/set.npz --scenarios large --methods log-mean --folds 0,1 --recipe quick"
    study += " --bags 8 --bag-size 4 --epochs 2 --device cpu --out WORK/study"
    audit = "audit WORK/run --answers WORK/audit/answers.csv --device cpu"
    report_study, check_images = "report WORK/study", "check WORK/manifest.csv"
    reads = {  # folder and file -> commands
        "run run/config.json": ["evaluate WORK/run --device cpu", predict, "report WORK/run", train],
        "run run/result.json": ["report WORK/run", train],
        "run run/metrics.jsonl": ["report WORK/run"],
        "run run/best.safetensors": [predict],
        **{f"half run/{name}": [train] for name in ("config.json", "checkpoint.safetensors", "metrics.jsonl")},
        **{f"staged {name}": [census] for name in _stage_files(folder / "staged")},
        "tables bags.csv": ["check WORK/bags.csv", "predict RUN WORK/bags.csv --device cpu --out WORK/predicted.csv"],
        "tables bags.parquet": ["check WORK/bags.parquet"],
        "answered audit/answers.csv": [audit, f"{learn} --refit --instance-labels WORK/audit/answers.csv"],
        "answered audit/audit.json": [audit],
        "answered run/audit-figures.json": ["report WORK/run --device cpu"],
        "answered blocks/_parts.json": ["predict WORK/run SOURCE --device cpu --out WORK/blocks"],
        "answered review.csv": [f"{learn} --no-refit --labels WORK/review.csv"],
        "answered run.toml": ["train SOURCE --config WORK/run.toml --no-refit --out WORK/new"],
        "study study/study.json": [report_study],
        f"study {cell}/config.json": [study],
        f"study {cell}/result.json": [report_study, study],
        f"study {cell}/metrics.jsonl": [report_study],
        "lines results.jsonl": ["report WORK/results.jsonl"],
        **{f"sets {name}": [f"check WORK/{name}"] for name in ("set.npz", "set.mat", "compressed.mat")},
        **{
            f"features features/{path.name}": ["check WORK/features", f"train WORK/features {QUICK} --epochs 1"]
            for path in sorted((folder / "features/features").iterdir())
        },
        **{f"images {path.name}": [check_images] for path in sorted((folder / "images").iterdir())},
    }
    places = {"SOURCE": source, "SETS": folder / "sets", "RUN": folder / "run/run"}
    found = []
    for place, commands in reads.items():
        of, file = place.split()
        for words in commands:
            words = words if "--out" in words or not words.startswith("train") else f"{words} --out WORK/run"
            call = partial(lambda words, work: command(words, WORK=work, **places), words)
            found.append(Target(f"{place}: {words.split()[0]}", of, file, call))
    return [*found, *_other_readers(folder)]


def _write_table(folder: Path, rng: np.random.Generator) -> Path:
    import pandas as pd

    labels = np.repeat(["a", "b", "c"] * 8, 5)
    frame = pd.DataFrame({"bag": np.repeat([f"bag-{i}" for i in range(24)], 5), "bag_label": labels})
    for i in range(3):
        frame[f"f{i}"] = rng.normal(size=120).round(3) + (labels == "abc"[i])
    frame["instance_label"] = np.where(rng.random(120) < 0.8, labels, "a")
    frame["x"], frame["y"] = rng.integers(0, 9, 120), rng.integers(0, 9, 120)
    frame.to_csv(folder / "bags.csv", index=False)
    frame.to_parquet(folder / "bags.parquet", index=False)
    return folder / "bags.csv"


def _write_answers(source: Path, folder: Path) -> None:
    """Files that a user has filled in: an audit, corrected labels, the options of a run."""
    import pandas as pd

    _train(source, "quick", folder / "run")
    assert command("audit OUT/run --labels 20 --out OUT/audit --device cpu", OUT=folder) == 0
    (folder / "review.csv").write_text("bag,bag_label,corrected_label\nbag-0,a,b\nbag-1,b,\nbag-2,c,c\n")
    drawn = pd.read_csv(folder / "audit/to-label.csv")
    drawn.assign(answer=["a", "b", "c", "cannot tell"] * 5).to_csv(folder / "audit/answers.csv", index=False)
    assert command("audit OUT/run --answers OUT/audit/answers.csv --device cpu", OUT=folder) == 0
    assert command("predict OUT/run SOURCE --device cpu --out OUT/blocks", OUT=folder, SOURCE=source) == 0
    options = ['method = "log-mean"', 'recipe = "quick"', 'features = ["f0", "f1"]', "epochs = 1", 'device = "cpu"']
    (folder / "run.toml").write_text("\n".join([*options, "[set]", '"training.learning_rate" = 0.01', ""]))


def _train(source: Path, recipe: str, out: Path, stop: str = "", after: int = 0) -> None:
    """Train as the commands above do; or leave the run folder of a training that was interrupted."""
    from majority import Callback, train
    from majority.training import checkpoint

    class Interrupt(Callback):
        called = 0

    def count(self: Interrupt, *_: object) -> None:
        self.called += 1
        if self.called == after:
            raise KeyboardInterrupt

    setattr(Interrupt, stop or "unused", count)
    settings = {"census.teacher_epochs": 1} if recipe == "census" else {}
    options = {"features": ["f0", "f1", "f2"], "method": "log-mean", "recipe": recipe, "epochs": 3, "refit": False}
    interrupted = False
    with mock.patch.object(checkpoint, "CHECKPOINT_SECONDS", 0):  # a checkpoint after every epoch
        try:
            train(source, **options, settings=settings, device="cpu", verbose=False, out=out, callbacks=[Interrupt()])
        except KeyboardInterrupt:
            interrupted = True
    assert interrupted == bool(stop), f"{out} ended before it could be interrupted"


def _stage_files(folder: Path) -> Iterator[str]:
    stage = min(path.parent for path in folder.glob("run/stages/*/metrics.jsonl"))
    yield from ((stage / name).relative_to(folder).as_posix() for name in ("outcome.json", "metrics.jsonl"))
    yield (stage / "weights.safetensors").relative_to(folder).as_posix()
    chosen = [place for place in folder.glob("run/stages/*/outcome.json") if '"chosen"' in place.read_text()]
    yield from (place.relative_to(folder).as_posix() for place in sorted(chosen))


def _write_study(folder: Path, rng: np.random.Generator) -> None:
    from scipy.io import savemat

    from majority.run.experiment import How, run_experiment
    from majority.run.study.grid import study_cells
    from majority.run.study.results import save_results, write_request
    from majority.run.study_config import StudyConfig

    sets, out = folder / "sets", folder / "study/study"
    sets.mkdir()
    images, labels = rng.integers(0, 256, (150, 4, 4), np.uint8), np.arange(150) % 3
    arrays = {"train_images": images, "train_labels": labels, "test_images": images, "test_labels": labels}
    np.savez(sets / "set.npz", **arrays)
    digits: dict[str, Any] = {"X": rng.integers(0, 256, (4, 4, 3, 60)).astype(np.uint8)}
    digits["y"] = (np.arange(60) % 3 + 1)[:, None]
    savemat(sets / "set.mat", digits)
    savemat(sets / "compressed.mat", digits, do_compression=True)
    grid = {"scenarios": ("large",), "methods": ("log-mean", "vote"), "folds": (0, 1)}
    options = {"bags": 8, "bag_size": 4, "recipe": "quick", "epochs": 2}
    study = StudyConfig(sources=(str(sets / "set.npz"),), **grid, options=options)
    cells = [*study_cells(study, out)]
    for place, cell in cells:
        if (cell.config.method, cell.config.bags.fold) != ("vote", 1):  # one cell is missing
            run_experiment(cell.config, place, How("cpu"))
    write_request(study, [place for place, _ in cells], out)
    command("report OUT", OUT=out)
    (folder / "lines").mkdir()
    shutil.copy(save_results(out), folder / "lines/results.jsonl")


def _write_features(folder: Path, rng: np.random.Generator) -> None:
    import h5py
    import torch

    folder.mkdir(parents=True)
    features = rng.normal(size=(6, 3)).astype(np.float32)
    np.save(folder / "one.npy", features)
    np.savez_compressed(folder / "two.npz", features=features)
    with h5py.File(folder / "three.h5", "w") as file:
        file.create_dataset("features", data=features, compression="gzip")
    torch.save({"features": torch.from_numpy(features)}, folder / "four.pt")
    (folder / "labels.csv").write_text("bag,label\none,a\ntwo,b\nthree,a\nfour,b\n")


def _write_images(folder: Path, rng: np.random.Generator) -> None:
    from PIL import Image

    folder.mkdir()
    names = ["a.png", "b.jpg", "c.tif", "d.webp"]
    for name in names:
        Image.fromarray(rng.integers(0, 256, (9, 8, 3), np.uint8)).save(folder / name)
    rows = [f"{bag},{label},{name}" for bag, label in zip("pqrs", "abab", strict=True) for name in names]
    (folder / "manifest.csv").write_text("bag,bag_label,path\n" + "\n".join(rows) + "\n")


def _other_readers(folder: Path) -> Iterator[Target]:
    """Of weights."""
    import torch
    from safetensors.torch import save_file

    from majority import Classifier
    from majority.nn.weights import load_weights

    best = "run/best.safetensors"
    yield Target("best.safetensors: load", "run", best, lambda work: Classifier.load(work / best, "cpu"))
    (folder / "weights").mkdir()
    network = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2))
    save_file(network.state_dict(), folder / "weights/weights.safetensors")
    torch.save(network.state_dict(), folder / "weights/weights.pt")
    for name in ("weights.safetensors", "weights.pt"):
        call = partial(lambda name, work: load_weights(network, work / name), name)
        yield Target(f"{name} of a backbone", "weights", name, call)
