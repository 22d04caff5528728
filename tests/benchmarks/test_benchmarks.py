"""The code of the benchmarks runs: small, on any machine. The measured values are not tested here."""

import importlib
import json
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from majority import LabelledSet, Settings, load_source
from majority.recipes import RECIPES, Plan

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def run(monkeypatch, capsys):
    """`python benchmarks/NAME ...` without a new process; what it prints."""

    def run(name, *words):
        monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
        runpy.run_path(str(BENCHMARKS / name), run_name="__main__")
        return capsys.readouterr().out

    monkeypatch.syspath_prepend(BENCHMARKS)
    return run


@pytest.fixture
def small_parts(monkeypatch):
    """Benchmark bags are few and small, unless a test asks for more."""
    make_parts = LabelledSet.make_parts

    def use(bags=20, bag_size=8):
        def made(self, **choices):
            given = {name: value for name, value in choices.items() if value is not None}
            return make_parts(self, **{"bags": bags, "bag_size": bag_size} | given)

        monkeypatch.setattr(LabelledSet, "make_parts", made)

    use()
    return use


@pytest.fixture
def short_quick(monkeypatch):
    """The recipe quick trains for two epochs."""
    short = replace(RECIPES["quick"], plan=lambda task: Plan("quick", training=Settings(epochs=2)))
    monkeypatch.setitem(RECIPES, "quick", short)


@pytest.mark.parametrize(
    "name", sorted(path.name for path in BENCHMARKS.glob("*.py") if "argparse" in path.read_text())
)
def test_every_benchmark_says_how_it_is_used(run, name):
    with pytest.raises(SystemExit) as ended:
        run(name, "--help")
    assert ended.value.code == 0


def test_speed_runs_small(run, tmp_path):
    out = tmp_path / "speed.json"
    run("speed.py", "--tiny", "--out", out, "--commit", "abc")
    result = json.loads(out.read_text())
    assert set(result["epoch_seconds"]) == {"published", "eager", "shipped", "floor"}
    assert all(seconds > 0 for seconds in result["epoch_seconds"].values())
    assert result["commit"] == "abc"
    assert len(result["growth"]) == 2
    assert all(rates["stream"] > 0 and rates["forward"] > 0 for rates in result["prediction"].values())


def test_scale_runs_small(monkeypatch, majority, run_program, tmp_path):
    """Starting Python takes seconds: most processes are copies of one that has imported the package."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    scale, out = importlib.import_module("scale"), tmp_path / "scale.json"
    measured = scale.measure("--version")
    assert measured["wall"] > 0
    assert measured["peak_mb"] > 0, "at least of the process that has just started"
    monkeypatch.setattr(scale, "measure", lambda *words: majority(*words))

    def run_copy(words, **options):
        return subprocess.CompletedProcess(words, 0, run_program(*words[2:]))

    monkeypatch.setattr(scale, "subprocess", SimpleNamespace(run=run_copy))
    words = ["--only", "bags", "--scale", "0.001", "--out", out]
    monkeypatch.setattr(sys, "argv", ["scale.py", str(tmp_path / "work"), *map(str, words)])
    scale.main()
    result = json.loads(out.read_text())["bags"]
    assert result["bags"] == 1_000
    assert result["cpu"] > 0
    assert "--only bags" in result["command"]


def test_startup_runs_small(run, tmp_path):
    out = tmp_path / "startup.json"
    run("startup.py", "--tiny", "--out", out)
    result = json.loads(out.read_text())
    assert result["cpu_seconds"]["after"]["list"]["median"] > 0
    assert "typer" in result["imports"]["list"]


def test_same_accuracy_runs_small_and_continues(run, small_parts, tmp_path):
    out = tmp_path / "same.jsonl"
    command = ["same_accuracy.py", "digits", "--backbone", "mlp", "--epochs", "1"]
    command += ["--methods", "count,attention", "--out", out]
    run(*command, "--seeds", "1")
    first = out.read_text()
    run(*command, "--seeds", "2")
    assert out.read_text().startswith(first), "a training that has a line is not run again"
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["method"], row["loop"], row["seed"]) for row in rows] == [
        *(("count", "fast", 0), ("count", "plain", 0), ("attention", "fast", 0), ("attention", "plain", 0)),
        *(("count", "fast", 1), ("count", "plain", 1), ("attention", "fast", 1), ("attention", "plain", 1)),
    ]
    fast, plain = rows[:2]
    assert fast["instance_accuracy"] == plain["instance_accuracy"], "on a CPU both are the plain loop"


@pytest.fixture
def census(tmp_path, small_parts):
    """The command for a small census of custom images, with pretraining."""
    rng = np.random.default_rng(0)
    labels = np.arange(600, dtype=np.uint16)[:, None] % 3
    images = rng.integers(0, 100, (600, 13, 13, 3), dtype=np.uint8)
    np.savez(tmp_path / "own.npz", train_images=images, train_labels=labels)
    command = ["census.py", tmp_path / "own.npz", "--scenarios", "large"]
    command += ["--folds", "0", "--plan", "gpu", "--seeds", "1", "--commit", "abc", "--set", 'backbone="mlp"']
    command += ["--set", "census.pretrain.epochs=1", "--set", "census.head.epochs=1", "--set", "training.epochs=1"]
    command += ["--set", 'census.pretrain.augment=["crop"]', "--set", 'training.augment=["crop"]']
    command += ["--set", "census.search_epochs=1"]
    return [*command, "--set", "census.teachers=1", "--work", tmp_path / "work"]


def test_census_runs_every_variant_from_one_pretrained_network_and_continues(run, census, tmp_path):
    command = [*census, "--out", tmp_path / "out"]
    run(*command, "--lines", "census,clusters")
    first = (tmp_path / "out/runs.jsonl").read_text()
    plot = tmp_path / "out/worth-own.svg"
    assert not plot.exists(), "no plot without supervised runs"
    run(*command, "--lines", "census,top2,clusters,heads,discriminants,supervised,augmented")
    assert (tmp_path / "out/runs.jsonl").read_text().startswith(first), "a training that has a line is not run again"
    rows = [json.loads(line) for line in (tmp_path / "out/runs.jsonl").read_text().splitlines()]
    lines = [row["line"] for row in rows]
    assert lines == ["census", "clusters", "top2", *["heads"] * 9, "discriminants", "supervised", "augmented"]
    assert (rows[-1]["method"], rows[-1]["plan"]["recipe"]) == ("log-mean", "augmented")
    assert "stages" not in rows[-1]
    pretrained = [path.read_bytes() for path in (tmp_path / "work").rglob("stages/pretrain/weights.safetensors")]
    assert len(pretrained) == 3, "census, top2 and supervised"
    assert len({*pretrained}) == 1, "every variant starts from the same network"
    summary = (tmp_path / "out/summary.csv").read_text().splitlines()
    assert summary[0] == "source,scenario,folds,mean,std,ceiling,floor,seconds"
    assert len(summary) == 2
    heads = (tmp_path / "out/heads.csv").read_text().splitlines()
    assert len(heads) == 11
    assert sum("adjusted-mean on discriminants" in head for head in heads) == 1
    assert plot.read_text().count("<circle") == 4, "clusters, census, top2 and supervised; proportions were not run"


def test_ablation_has_every_variant_from_one_pretrained_network_and_continues(run, census, tmp_path):
    out, seeds = tmp_path / "ablation.jsonl", census.index("--seeds")
    words = ["census.teachers=3" if word == "census.teachers=1" else word for word in census]
    command = ["ablation.py", *words[1:seeds], *words[seeds + 2 :], "--out", out]
    for lines in ("head", "nonsense"):
        with pytest.raises(SystemExit):
            run(*command, "--lines", lines)
    run(*command, "--lines", "census,teacher")
    first = out.read_text()
    run(*command)
    assert out.read_text().startswith(first), "a variant that has a line is not run again"
    rows = {row["line"]: row for row in map(json.loads, out.read_text().splitlines())}
    assert [*rows] == ["census", "teacher", "head", "teachers", "one-teacher", "count", "from-scratch"]
    pretrained = [path.read_bytes() for path in (tmp_path / "work").rglob("stages/pretrain/weights.safetensors")]
    assert len(pretrained) == 3, "census, one-teacher and count"
    assert len({*pretrained}) == 1
    teachers = rows["teacher"]["each"]
    assert [*teachers] == [*rows["census"]["losses"]["teachers"]]
    assert rows["teacher"]["instance_accuracy"] == teachers["teacher-1-adjusted-mean"]
    assert rows["head"]["instance_accuracy"] == rows["head"]["each"]["head-adjusted-mean"]
    assert [len(rows[line]["losses"]["teachers"]) for line in ("census", "one-teacher")] == [3, 1]
    assert "stages" not in rows["from-scratch"]


def test_census_of_several_losses_has_the_views_and_the_pretrained_network_of_one(run, census, tmp_path):
    command = [*census, "--lines", "census", "--out", tmp_path / "out"]
    run(*command)
    stages = tmp_path / "work/own/large/fold0/adjusted-mean/stages"
    before = {path: path.stat().st_mtime_ns for path in stages.rglob("weights.safetensors")}
    run(*command, "--method", "auto")
    one, several = (json.loads(line) for line in (tmp_path / "out/runs.jsonl").read_text().splitlines())
    assert one["views"] == several["views"]
    assert several["losses"]["chosen"] in several["losses"]["weights"]
    shared = [path for path in before if path.parent.name.startswith(("views-", "pretrain"))]
    assert len(shared) > 2
    for path in shared:
        copied = tmp_path / "work/own/large/fold0/auto/stages" / path.relative_to(stages)
        assert copied.stat().st_mtime_ns == before[path], "copied, not trained again"


def test_census_refuses_files_of_another_plan(run, census, tmp_path):
    refused = pytest.raises(SystemExit, match=r"work/own/large/fold0 was made by another plan.* choose another --work")
    same, other = ([*census, "--out", tmp_path / out] for out in ("same", "other"))
    run(*same, "--lines", "census")
    for line in ("census", "supervised", "clusters"):
        with refused:
            run(*other, "--set", "census.temperature=0.5", "--lines", line)
    assert not (tmp_path / "other/runs.jsonl").exists()
    run(*same, "--lines", "census,clusters")
    (tmp_path / "work/own/large/fold0/plans.json").unlink()
    with refused:
        run(*same, "--lines", "supervised")


def test_vectors_runs_and_continues(run, small_parts, tmp_path):
    small_parts(bags=100, bag_size=20)
    command = ["vectors.py", "digits", "--scenarios", "large", "--folds", "0"]
    command += ["--out", tmp_path / "vectors.jsonl"]
    printed = run(*command, "--recipes", "quick")
    again = run(*command, "--recipes", "quick")
    (row,) = [json.loads(line) for line in (tmp_path / "vectors.jsonl").read_text().splitlines()]
    assert row["plan"]["recipe"] == row["recipe"] == "quick"
    assert 0.8 < row["instance_accuracy"] <= 1, "as many components as pixels are the pixels, turned"
    assert f"{row['instance_accuracy']:.4f}" in printed
    assert again == ""


def test_embed_runs_and_continues(run, small_parts, tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    info, number = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    pool = onnx.helper.make_node("AveragePool", ["x"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2])
    flat = onnx.helper.make_node("Flatten", ["pooled"], ["y"])
    graph = onnx.helper.make_graph(
        [pool, flat], "g", [info("x", number, ["n", 1, 8, 8])], [info("y", number, ["n", 16])]
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "m.onnx")
    words = ["embed.py", "digits", "--model", tmp_path / "m.onnx", "--mean", 0, "--std", 1, "--out", tmp_path / "out"]
    words += ["--method", "log-mean", "--recipe", "quick", "--folds"]
    run(*words, "0")
    run(*words, "0,1")
    lines = [json.loads(line) for line in (tmp_path / "out" / "runs.jsonl").read_text().splitlines()]
    assert [line["fold"] for line in lines] == [0, 1]
    assert all(line["cpu_seconds"] > 0 for line in lines)
    facts = json.loads((tmp_path / "out" / "embedding.json").read_text())
    assert facts["features"] == 16
    assert facts["model"] == "m.onnx"
    features = np.load(tmp_path / "out" / "digits.npy")
    with pytest.raises(SystemExit, match=r"embedding\.json names other images or another model"):
        run(*[0.5 if word == 1 else word for word in words], "2")
    lines = tmp_path / "labels.jsonl"
    words = ["--features", tmp_path / "out" / "digits.npy", "--folds", "0", "--scenarios", "large", "--out", lines]
    words += ["--recipe", "quick", "--bags", "40", "--wrong", "0.2", "--work", tmp_path / "work"]
    run("labels.py", "wrong", "digits", *words)
    (line,) = [json.loads(line) for line in lines.read_text().splitlines()]
    assert (line["source"], line["wrong"], len(features)) == ("digits-features", 0.2, 1797)
    np.save(tmp_path / "out" / "digits.npy", features[:5])
    with pytest.raises(SystemExit, match="one row for each image"):
        run("labels.py", "wrong", "digits", *words)


def test_losses_are_compared_with_their_weighted_mean_with_and_without_offsets(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    losses = importlib.import_module("losses")
    monkeypatch.setattr(losses, "METHODS", losses.LOSSES)
    monkeypatch.setattr(losses, "BAGS", 20)
    rows = losses.results(losses.make_parts(losses.as_vectors(load_source("digits")), "large", 4.0, "equal", 0))
    assert [row["method"] for row in rows] == [*losses.LOSSES, "weighted-mean", "auto"]
    assert all(0.2 < row["instance_accuracy"] <= 1 for row in rows)
    assert {row["chosen"] for row in rows[-2:]} <= {*losses.LOSSES}


def test_labels_runs_small_and_continues(run, tmp_path):
    out = tmp_path / "labels.jsonl"
    words = ["--folds", "0", "--scenarios", "large", "--recipe", "quick", "--bags", "40", "--labelled", "20"]
    words += ["--work", tmp_path / "work", "--out", out]
    run("labels.py", "unlabelled", "digits", *words)
    first = out.read_text()
    run("labels.py", "unlabelled", "digits", *words)
    assert out.read_text() == first, "a training that has a line is not run again"
    rows = [json.loads(line) for line in first.splitlines()]
    assert [(row["line"], row["labelled"]) for row in rows] == [("with", 20), ("without", 20)]


def test_trials_of_wrong_labels_run_small_and_continue(run, tmp_path):
    rng, rows = np.random.default_rng(0), ["bag,bag_label,label,u,v"]
    for bag in range(60):
        labels = rng.choice(2, 9, p=[0.8, 0.2] if bag % 2 else [0.2, 0.8])
        winner = "ab"[int(labels.sum() > 4)]
        rows += [
            f"{bag},{winner},{'ab'[label]},{label + rng.normal(0, 0.2):.3f},{rng.normal():.3f}" for label in labels
        ]
    (tmp_path / "own.csv").write_text("\n".join(rows))
    out = tmp_path / "trials.jsonl"
    words = [tmp_path / "own.csv", "--folds", "0", "--draws", "1", "--commit", "abc", "--out", out]
    words += ["--set", "census.head.epochs=3", "--set", "training.epochs=3", "--set", "census.teachers=1"]
    run("wrong_trials.py", *words, "--lines", "first,corrected")
    first = out.read_text()
    run("wrong_trials.py", *words, "--lines", "first,corrected,all-removed")
    assert out.read_text().startswith(first), "a training that has a line is not run again"
    lines = {row["line"]: row for row in map(json.loads, out.read_text().splitlines())}
    assert [*lines] == ["first", "corrected", "all-removed"]
    found = lines["corrected"]["found"]
    assert found["wrong"] > 0
    assert found["right"] <= min(found["wrong"], found["contradicted"])
    assert "found" not in lines["all-removed"]


@pytest.mark.usefixtures("short_quick")
def test_refit_runs_small_and_continues(run, tmp_path):
    out = tmp_path / "refit.jsonl"
    words = ["digits", "--bags", "60", "--recipes", "quick", "--folds", "0", "--work", tmp_path / "work", "--out", out]
    run("refit.py", *words)
    first = out.read_text()
    run("refit.py", *words)
    assert out.read_text() == first, "a training that has a line is not run again"
    row = json.loads(first)
    assert all(0 < row[name] <= 1 for name in ("split", "refit", "folds", "fold_mean"))


def test_views_runs_small_and_continues(run, census, tmp_path):
    out = tmp_path / "views.jsonl"
    words = [census[1], "--scenarios", "large", "--bags", "20", "--choices", "colour+mix", "--epochs", "1"]
    words += ["--commit", "abc", "--out", out]
    run("views.py", *words)
    first = out.read_text()
    run("views.py", *words)
    assert out.read_text() == first, "a training that has a line is not run again"
    row = json.loads(first)
    assert row["views"] == "colour+mix"
    assert min(row["val_loss"], row["held_out_loss"]) > 0
