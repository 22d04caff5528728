"""mpem: its formulas against plain loops, and the recipe as its user sees it."""

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from majority import Bags, Settings, build_model, train
from majority.recipes import RECIPES, Plan, TaskInfo, choose_plan, train_by_plan
from majority.recipes.mpem import InstanceBatch, MpemSettings, distance_to_label, distances, keep_mask, typical_sums
from majority.run.folder import read_config
from majority.run.report.command import train_command

C, D = 4, 3
RATIOS = (0.3, 1.0)
TINY = {"bags": 20, "bag_size": 8, "recipe": "mpem", "backbone": "mlp", "epochs": 3}
TINY |= {"settings": {"mpem.ratios": RATIOS}}


def run_tiny(folder, verbose=False, **changes):
    return train("digits", method="count", **(TINY | changes), device="cpu", verbose=verbose, out=folder).result


# ---------------------------------------------------------------------- the formulas


def plain_keep(bags, ratio):
    """Bags are (label, predicted label, [(predicted class, feature)]); of every instance, whether it is counted."""
    means = {}
    for c in range(C):
        own = [
            feature
            for label, guess, instances in bags
            for predicted, feature in instances
            if label == guess == predicted == c
        ]
        if own:
            means[c] = [sum(column) / len(own) for column in zip(*own, strict=True)]
    keep = []
    for label, _, instances in bags:
        others = [i for i, (predicted, _) in enumerate(instances) if predicted != label]
        out = set()
        if label in means:
            others.sort(key=lambda i: (-round(math.dist(instances[i][1], means[label]), 9), i))
            out = set(others[: math.floor(round(ratio * len(others), 6))])
        if len(out) == len(instances):
            out = set()
        keep += [i not in out for i in range(len(instances))]
    return keep


@settings(max_examples=150, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=8),
    ratio=st.sampled_from([0.05, 0.1, 0.29, 0.3, 0.5, 0.7, 0.9, 1.0]),
    classes=st.integers(1, C),  # fewer than C: some never occur
    seed=st.integers(0, 2**32 - 1),
)
def test_who_is_counted_is_what_a_plain_loop_says(sizes, ratio, classes, seed):
    rng = np.random.default_rng(seed)

    def draw(n):
        return rng.integers(0, classes, n)

    labels, guesses, predicted = draw(len(sizes)), draw(len(sizes)), draw(sum(sizes))
    features = rng.normal(size=(6, D))[rng.integers(0, 6, sum(sizes))]  # few different ones: many ties
    where = np.repeat(np.arange(len(sizes)), sizes)
    reading = InstanceBatch(
        *map(torch.from_numpy, (features, predicted, labels[where], labels[where] == guesses[where]))
    )
    sums, numbers = typical_sums(reading, C)
    far = distances(reading, sums / numbers.unsqueeze(1)).numpy()
    instances = list(zip(predicted.tolist(), features.tolist(), strict=True))
    cuts = np.cumsum([0, *sizes])
    bags = [(labels[i], guesses[i], instances[cuts[i] : cuts[i + 1]]) for i in range(len(sizes))]
    assert keep_mask(far.round(9), np.array(sizes), ratio).tolist() == plain_keep(bags, ratio)  # ties as such


@pytest.mark.parametrize(("ratio", "out"), [(0.29, 29), (0.1, 10), (0.7, 70), (0.999, 99), (0.001, 0)])
def test_a_share_is_what_it_says(ratio, out):
    far = np.concatenate([[-1.0], np.arange(100.0)])
    keep = keep_mask(far, np.array([101]), ratio)
    assert (~keep).sum() == out
    assert keep[: 101 - out].all(), "the farthest are left out"


def blobs(n=60, size=7, seed=0, ragged=False):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 2 * size, n) if ragged else np.full(n, size)
    offsets = np.cumsum([0, *sizes])
    labels = rng.integers(0, C, n)
    truth = np.where(rng.random(offsets[-1]) < 0.6, np.repeat(labels, sizes), rng.integers(0, C, offsets[-1]))
    store = (np.eye(C)[truth] + 0.5 * rng.normal(size=(len(truth), C))).astype(np.float32)
    return Bags(store, np.arange(len(truth)), offsets, labels, "abcd", instance_labels=truth)


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("piece", [8_192, 16])
def test_distances_of_a_network_are_those_of_a_loop_over_its_bags(ragged, piece, monkeypatch):
    monkeypatch.setattr("majority.data.device.BATCH_INSTANCES", piece)
    bags = blobs(ragged=ragged)
    model = build_model(bags, "count", torch.nn.Identity()).eval()
    torch.nn.init.eye_(model.head.classifier.weight)
    read = []
    with torch.inference_mode():
        for i in range(len(bags)):
            features = model.normalise(torch.from_numpy(bags.bag(i)))
            logits = model.head.classifier(features)
            guess = int((logits / 0.1).softmax(dim=1).mean(dim=0).argmax())
            read.append(
                (bags.labels[i], guess, list(zip(logits.argmax(dim=1).tolist(), features.tolist(), strict=True)))
            )
    far = distance_to_label(model, bags, "cpu")
    assert keep_mask(far.round(9), bags.sizes, 0.5).tolist() == plain_keep(read, 0.5)
    assert (far == -1).sum() == sum(p == y for y, _, instances in read for p, _ in instances)


# ---------------------------------------------------------------------- the recipe


def run_here(folder=None, ratios=RATIOS, train=None, epochs=3, val=1, **more):
    train, val = train or blobs(), blobs(20, seed=val)
    plan = Plan("mpem", "mlp", training=Settings(epochs=epochs, batch_bags=16), own=MpemSettings(ratios))

    def build(seed=0, method=None):
        return build_model(train, "count", "mlp", seed=seed)

    return train_by_plan(plan, "count", train, val, build, folder, device="cpu", **more)


def test_the_ratio_of_lowest_validation_loss_wins(tmp_path):
    trained = run_here(tmp_path, (0.4, 0.7, 1.0))
    about = trained.about["mpem"]
    losses = {name: min(line["val_loss"] for line in lines(tmp_path / "stages" / name)) for name in trained.trainings}
    first = losses.pop("first")
    assert about["val_loss"] == {name[1:]: loss for name, loss in losses.items()}
    assert about["r"] == float(min(losses, key=losses.get)[1:])
    assert trained.fitted.best_loss == min(losses.values())
    assert trained.summary()["stages"]["first"]["val_loss"] == first
    assert 0 < about["left_out"] < 1
    seconds = [fitted.seconds for fitted in trained.trainings.values()]
    assert trained.summary()["seconds"] == pytest.approx(sum(seconds), abs=1e-3)


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_run_leaves_what_every_run_leaves(tmp_path, capsys):
    result = run_tiny(tmp_path, verbose=True)
    printed = capsys.readouterr().out.splitlines()
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    stages = {
        f"stages/{name}/{file}" for name in ("first", "r0.3", "r1.0") for file in ("metrics.jsonl", "outcome.json")
    }
    whole = {"config.json", "metrics.jsonl", "best.safetensors", "result.json", "model-card.md", "report.html"}
    chosen = {"stages/ratio/outcome.json"}
    assert files == whole | stages | chosen | {f"stages/r{ratio}/left-out.npz" for ratio in RATIOS}
    written = np.load(tmp_path / f"stages/r{result['mpem']['r']}/left-out.npz")
    left_out, candidates = written["left_out"], written["candidates"]
    assert 0 < left_out.mean() == pytest.approx(result["mpem"]["left_out"])
    assert not (left_out & ~candidates).any()
    assert f"{100 * left_out.mean():.0f} % of the training instances: r = " in (tmp_path / "report.html").read_text()
    assert result["recipe"] == "mpem"
    winner = tmp_path / "stages" / f"r{result['mpem']['r']}" / "metrics.jsonl"
    assert (tmp_path / "metrics.jsonl").read_text() == winner.read_text()
    assert [line.split(":")[0] for line in printed[1:]] == ["stage first", "stage r0.3", "stage r1.0"]
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["plan"]["mpem"]["ratios"] == [0.3, 1.0]
    command = train_command(read_config(tmp_path))
    assert "--epochs 3 --backbone mlp " in command
    assert " --set 'mpem.ratios=[0.3, 1.0]'" in command
    assert run_tiny(tmp_path, verbose=True) == result
    assert "is finished" in capsys.readouterr().out
    (tmp_path / "stages" / "first" / "best.safetensors").write_bytes(b"left behind by a kill")
    run_tiny(tmp_path)
    assert not list(tmp_path.glob("stages/*/*.safetensors"))


def test_it_is_the_papers_plan_with_ten_ratios():
    plan, paper = RECIPES["mpem"].plan_for(TaskInfo("cifar10")), RECIPES["paper"].plan_for(TaskInfo("cifar10"))
    assert (plan.backbone, plan.pixels, plan.training) == (paper.backbone, paper.pixels, paper.training)
    assert plan.own.ratios == (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    assert paper.own is None
    assert choose_plan("mpem", TaskInfo("mine"))[1] == "recipe mpem"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--recipe", "mpem", "--method", "vote"],
            "does not work with method vote: use method count or soft",
        ),
        (["--set", "mpem.ratios=[0.5]"], "--recipe mpem"),
        (
            ["--recipe", "mpem", "--method", "count", "--set", "mpem.ratios=[0.5,1.5]"],
            "ratios 0.5,1.5: give numbers above 0 and up to 1, each once",
        ),
        (["--recipe", "mpem", "--method", "count", "--set", "mpem.ratios=[0.5,0.5]"], "each once"),
        (["--recipe", "mpem", "--method", "count", "--set", "mpem.ratios=[0]"], "above 0"),
        (["--recipe", "mpem", "--method", "count", "--set", "mpem.ratios=half"], "mpem.ratios is half: give a list"),
        (["--recipe", "mpem", "--method", "count", "--set", 'mpem.ratios=["a"]'], "give a list"),
        (["--recipe", "mpem", "--method", "count", "--set", "mpem.ratios=[true]"], "give a list"),
        (["--recipe", "mpem", "--method", "count", "--set", "mpem.ratios=null"], "mpem.ratios is null: give a list"),
    ],
)
def test_wrong_settings_are_refused(majority, tmp_path, words, message):
    code, _, error = majority("train", "digits", *words, "--out", tmp_path / "run")
    assert code == 2
    assert message in error
    assert not (tmp_path / "run").exists()
