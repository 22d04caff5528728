"""Golden runs: small trainings of every recipe, whose weights and metrics a change of the code alone must not change.

    python tests/golden/record.py                  # all of them, into golden.json
    python tests/golden/record.py census-tiny      # only this one; the others stay

Everything goes through the command line and the names that `majority` exports, so that modules may move. Record again
only if a change is meant to alter results, and say so in its commit message.
"""

import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).with_name("golden.json")
PLUGIN = Path(__file__).with_name("pretrained.py")
SECONDS = 300  # a command that takes longer hangs

SMALL = "--scenario large --classes 3 --bags 16 --bag-size 8 --batch-bags 4 --epochs 2"
LARGER = "--scenario large --classes 4 --bags 40 --bag-size 12"
HEAD = "--set census.head.epochs=20"
PRETRAIN = "--set pretrained.pretrain.epochs=2 --set pretrained.pretrain.batch_bags=64 --set pretrained.search_epochs=1"
SOME_LABELS = "--wrong-labels 0.1 --instance-labels 3"
RUNS = {  # commands, without --device and --out
    "quick": "study digits --recipe quick --methods all --scenarios large --classes 4 --bags 40 --bag-size 12"
    " --batch-bags 8 --epochs 6 --jobs 1",
    "paper": f"train digits --recipe paper --method count {SMALL}",
    "augmented": f"train digits --recipe augmented --method log-mean --backbone cnn {SMALL}",
    "mpem": f"train digits --recipe mpem --backbone cnn {SMALL} --set mpem.ratios=[0.3,0.7]",
    "census-vectors": f"train vectors.npz --recipe census {LARGER} --epochs 10 {HEAD}",
    "census-one-loss": f"train vectors.npz --recipe census --method adjusted-mean {LARGER} --epochs 10 {HEAD}"
    f" {SOME_LABELS}",
    "census-tiny": f"train digits --recipe census {LARGER} --epochs 10 --set census.momentum=0.9",
    "census-images": f"train images.npz --recipe census {LARGER} --epochs 5 {HEAD}",
    "census-pretrained": f"train images.npz --recipe pretrained --backbone cnn {LARGER} --epochs 3"
    f" --set pretrained.head.epochs=10 {PRETRAIN}",
    "census-own-bags": "train table.csv --recipe census --background 3 --epochs 10 --set census.head.epochs=10 --refit",
}


def write_sources(folder: Path) -> None:
    """The handwritten digits of scikit-learn as vectors, as images that are not tiny, and as a table of bags."""
    import numpy as np
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = np.round(digits.images * (255 / 16)).astype(np.uint8)  # (n, 8, 8), was 0..16
    large = pixels.repeat(2, axis=1).repeat(2, axis=2)  # (n, 16, 16)
    np.savez(folder / "images.npz", train_images=large, train_labels=digits.target)
    np.savez(folder / "vectors.npz", train_features=(digits.data / 16).astype(np.float32), train_labels=digits.target)
    rng, rows = np.random.default_rng(0), ["bag,bag_label,group,label," + ",".join(f"f{i}" for i in range(64))]
    for bag in range(75):
        winner = bag % 3  # the digit 3 never wins
        for digit in [winner] * 6 + rng.integers(0, 4, 2 + bag % 4).tolist() + [3] * 2:
            row = rng.choice(np.flatnonzero(digits.target == digit))
            features = ",".join(f"{value:g}" for value in digits.data[row])
            rows.append(f"b{bag},{winner},g{bag // 2},{digit},{features}")
    (folder / "table.csv").write_text("\n".join(rows) + "\n")


def in_a_new_process(words: list[str], folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run the command in the folder: its exit code, and what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "majority", *words],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout


def outcomes(name: str, run: Callable[..., tuple[int, str]] = in_a_new_process) -> dict[str, Any]:
    """Run the command of this name on one thread: metrics and weights of each run folder that it leaves."""
    with tempfile.TemporaryDirectory(prefix="golden-") as place:
        folder = Path(place)
        write_sources(folder)
        alone = {key: value for key, value in os.environ.items() if not key.startswith(("MAJORITY_", "TORCH"))}
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        more = {"XDG_CACHE_HOME": place, "CUDA_VISIBLE_DEVICES": "", "MAJORITY_PLUGINS": str(PLUGIN)}
        words = [*RUNS[name].split(), "--device", "cpu", "--out", "run"]
        code, printed = run(words, folder, alone | threads | more)
        if code != 0:
            raise RuntimeError(f"majority {' '.join(words)} ends with {code}:\n{printed}")
        results = sorted((folder / "run").rglob("result.json"))
        return {path.parent.relative_to(folder).as_posix(): outcome(path.parent) for path in results}


def outcome(run: Path) -> dict[str, Any]:
    """The metrics of the test bags, without texts and recall by class, and one hash for each file of final weights."""
    test = json.loads((run / "result.json").read_text())["test"]
    metrics = {name: value for name, value in test.items() if name not in ("warnings", "class_recall")}
    return {"test": metrics, "weights": sorted(map(hash_of_weights, run.glob("*.safetensors")))}


def hash_of_weights(path: Path) -> str:
    """A hash of the shapes, types and bytes of all tensors, whatever their names and their order in the file."""
    from safetensors.torch import load_file

    digests = []
    for value in load_file(path).values():
        about = f"{tuple(value.shape)} {value.dtype} ".encode()
        digests.append(hashlib.sha256(about + value.contiguous().numpy().tobytes()).hexdigest())
    return hashlib.sha256("\n".join(sorted(digests)).encode()).hexdigest()


def environment() -> dict[str, str]:
    """What the last digits depend on."""
    import numpy as np
    import torch

    return {
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": platform.machine(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }


def record(names: list[str]) -> None:
    here = environment()
    golden = json.loads(GOLDEN.read_text()) if names else {}
    if names and golden["environment"] != here:
        raise SystemExit(f"{GOLDEN.name} was recorded with {golden['environment']}, this is {here}: record all runs")
    runs = golden.get("runs", {})
    for name in names or RUNS:
        start = time.perf_counter()
        runs[name] = {"command": RUNS[name], "outcomes": outcomes(name)}
        accuracies = [f"{each['test']['instance_accuracy']:.3f}" for each in runs[name]["outcomes"].values()]
        print(f"{name}: {time.perf_counter() - start:.1f} s, instance accuracy {', '.join(accuracies)}", flush=True)
    GOLDEN.write_text(json.dumps({"environment": here, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    record(sys.argv[1:])
