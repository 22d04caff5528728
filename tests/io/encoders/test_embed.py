"""`majority embed`, as a user sees it: images in, a folder that the other commands take."""

import json
import shutil
import time

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.3, 0.25)
OPTIONS = ("--mean", "0.4,0.5,0.6", "--std", "0.2,0.3,0.25")


def features_of(network, path):
    """The features of one image, computed apart from the library."""
    image = Image.open(path).convert("RGB").resize((16, 16), Image.Resampling.BILINEAR)
    pixels = torch.tensor(np.asarray(image) / 255.0).permute(2, 0, 1)
    normalised = (pixels - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
    with torch.no_grad():
        return network(normalised[None].float())[0].numpy()


@pytest.fixture(scope="module")
def embedded(succeeds, onnx_file, manifest, tmp_path_factory):
    """A folder of features, and a run that was trained on it."""
    folder = tmp_path_factory.mktemp("embedded")
    model = folder / "small.onnx"
    shutil.copy(onnx_file, model)
    succeeds("embed", manifest, "--model", model, *OPTIONS, "--out", folder / "features")
    succeeds(
        "train", folder / "features", "--recipe", "quick", "--method=log-mean", "--epochs", 8, "--out", folder / "run"
    )
    return folder


def test_features_are_those_of_the_network(embedded, network, manifest):
    for bag in (0, 13):
        found = np.load(embedded / "features" / f"bag {bag:02}.npy")
        expected = [features_of(network, manifest.parent / f"{bag}-{i}.png") for i in range(5)]
        np.testing.assert_allclose(found, np.stack(expected), atol=1e-4)


def test_labels_paths_true_classes_and_coordinates_are_kept(embedded, succeeds, manifest, says):
    out = succeeds("check", embedded / "features")
    assert says(out, "bags", "20")
    assert says(out, "known for 95 of 100 instances")
    assert says(out, "embedded by", "small.onnx", "16x16x3")
    succeeds("predict", embedded / "run", embedded / "features", "--out", embedded / "classes.csv")
    classes, rows = pd.read_csv(embedded / "classes.csv"), pd.read_csv(manifest)
    for column in ("bag", "path", "x", "y"):
        assert classes[column].tolist() == rows[column].tolist()


def test_new_images_are_embedded_alike(embedded, succeeds, manifest):
    for source, name in ((embedded / "features", "a.csv"), (manifest, "b.csv")):
        succeeds("predict", embedded / "run", source, "--out", embedded / name)
    a, b = (pd.read_csv(embedded / name) for name in ("a.csv", "b.csv"))
    assert (a["class"] == b["class"]).all()
    np.testing.assert_allclose(a["p(red)"], b["p(red)"], atol=1e-4)
    assert "instance accuracy" in succeeds("evaluate", embedded / "run", manifest)


def test_a_model_that_is_gone_is_named_and_found_in_the_run_folder(embedded, refused, succeeds, manifest, tmp_path):
    model, out = embedded / "small.onnx", tmp_path / "classes.csv"
    moved = model.rename(tmp_path / "small.onnx")
    try:
        err = refused("predict", embedded / "run", manifest, "--out", out)
        assert str(model) in err
        assert str(embedded / "run" / "small.onnx") in err
        assert not out.exists()
        shutil.copy(moved, embedded / "run")
        succeeds("predict", embedded / "run", manifest, "--out", out)
        (embedded / "run" / "small.onnx").write_bytes(moved.read_bytes() + b"\0\0")
        assert "other weights" in refused("predict", embedded / "run", manifest, "--out", out)
    finally:
        (embedded / "run" / "small.onnx").unlink(missing_ok=True)
        moved.rename(model)


def test_features_of_another_model_are_refused(embedded, refused, succeeds, manifest, onnx_file, tmp_path):
    assert "another model" in refused("embed", manifest, "--model", onnx_file, "--out", embedded / "features")
    succeeds("embed", manifest, "--model", onnx_file, "--out", tmp_path / "other")
    assert "mean" in refused("predict", embedded / "run", tmp_path / "other", "--out", tmp_path / "classes.csv")


SLOWLY = """
import os, sys, time
from majority.cli import main
from majority.io import embed
sys.stdout = open(os.devnull, "w")
embed.instances_per_pass = lambda *given: 1
write = embed._write_npy
embed._write_npy = lambda *given: (write(*given), time.sleep(0.2))
sys.argv = {words!r}
main()
"""


def kill_when(condition, processes, *words):
    """Run the command, slowly, in a new process and kill -9 it as soon as the condition holds."""
    process = processes.Process(target=exec, args=(SLOWLY.format(words=["majority", *map(str, words)]), {}))
    process.start()
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.is_alive() and not condition():
        time.sleep(0.001)
    ended = not process.is_alive()
    process.kill()
    process.join()
    assert not ended, "it ended before it could be killed"


def test_resumes_after_kill(majority, refused, succeeds, processes, onnx_file, manifest, embedded, tmp_path, says):
    """A killed command leaves whole files and no folder that could be trained on; repeated, it adds the rest."""
    out = tmp_path / "features"
    words = ("embed", manifest, "--model", onnx_file, *OPTIONS, "--out", out)
    kill_when(lambda: len(list(out.glob("*.npy"))) >= 3, processes, *words)
    kept = {path: path.stat().st_mtime_ns for path in out.glob("*.npy")}
    assert 3 <= len(kept) < 20
    assert "majority embed" in refused("train", out, "--out", tmp_path / "run")
    printed = succeeds(*words)
    assert says(printed, f"{len(kept)} of 20 bags")
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    for path in (embedded / "features").glob("*.npy"):
        np.testing.assert_allclose(np.load(path), np.load(out / path.name), atol=1e-5)  # batches differ
    assert majority(*words)[1].startswith(f"{out} is finished")


def test_wrong_input_is_one_message(refused, manifest, onnx_file, tmp_path):
    vectors = tmp_path / "vectors.csv"
    vectors.write_text("bag,bag_label,f\na,x,1\nb,y,2\n")
    names = manifest.with_name("names.csv")
    pd.read_csv(manifest).assign(bag="a/b", bag_label="red").to_csv(names, index=False)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    full = tmp_path / "full"
    full.mkdir()
    (full / "letter.txt").write_text("mine")
    cases = {
        (vectors, onnx_file): "vectors",
        ("digits", onnx_file): "digits",
        (names, onnx_file): "'a/b'",
        (manifest, "no.onnx"): "no.onnx",
        (manifest, broken): "broken.onnx",
        (manifest, "unknown"): "MAJORITY_PLUGINS",
        (manifest, onnx_file, "--std", "0"): "above 0",
        (manifest, onnx_file, "--mean", "1,2"): "--mean",
        (manifest, onnx_file, "--image-size", "32"): "16x16",
        (manifest, onnx_file, "--weights", "w.safetensors"): "--weights",
    }
    for number, ((source, model, *words), fact) in enumerate(cases.items()):
        out = tmp_path / f"out{number}"
        err = refused("embed", source, "--model", model, *words, "--out", out)
        assert fact in err
        assert err.count("\n") == 1
        assert not out.exists()
    assert "letter.txt" in refused("embed", manifest, "--model", onnx_file, "--out", full)


def test_an_image_that_cannot_be_decoded_is_named(refused, manifest, onnx_file, tmp_path):
    for path in manifest.parent.glob("1-*.png"):
        shutil.copy(path, tmp_path)
    content = (tmp_path / "1-3.png").read_bytes()
    (tmp_path / "1-3.png").write_bytes(content[: len(content) // 2])
    (tmp_path / "t.csv").write_text("bag,path\n" + "".join(f"a,1-{i}.png\n" for i in range(5)))
    assert "1-3.png" in refused("embed", tmp_path / "t.csv", "--model", onnx_file, "--out", tmp_path / "out")


def test_facts_are_in_the_folder_and_in_the_run(embedded):
    facts = json.loads((embedded / "features" / "embedding.json").read_text())["embedding"]
    assert facts["image_size"] == [16, 16]
    assert facts["mean"] == list(MEAN)
    assert len(facts["sha256"]) == 64
    assert json.loads((embedded / "run" / "config.json").read_text())["embedding"] == facts
