"""mpem: who is counted, against a plain loop, and the recipe as its user sees it."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from majority import train
from majority.recipes.mpem import distances, keep_mask

C, D = 4, 3


def plain_keep(bags, ratio):
    """Bags are (label, predicted label, [(predicted class, feature)]); of every instance, whether it is counted."""
    means = {}
    for c in range(C):
        typical = [
            feature
            for label, guess, instances in bags
            for predicted, feature in instances
            if label == guess == predicted == c
        ]
        if typical:
            means[c] = [sum(column) / len(typical) for column in zip(*typical, strict=True)]
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


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=8),
    ratio=st.sampled_from([0.05, 0.1, 0.29, 0.3, 0.5, 0.7, 0.9, 1.0]),
    classes=st.integers(1, C),  # fewer than C: some never occur
    seed=st.integers(0, 2**32 - 1),
)
def test_who_is_counted_is_what_a_plain_loop_says(sizes, ratio, classes, seed):
    rng = np.random.default_rng(seed)
    labels, guesses, predicted = (rng.integers(0, classes, n) for n in (len(sizes), len(sizes), sum(sizes)))
    features = rng.normal(size=(6, D))[rng.integers(0, 6, sum(sizes))]  # few different ones: many ties
    where = np.repeat(np.arange(len(sizes)), sizes)
    far = distances(features, predicted, labels[where], labels[where] == guesses[where])
    instances = list(zip(predicted.tolist(), features.tolist(), strict=True))
    cuts = np.cumsum([0, *sizes])
    bags = [(labels[i], guesses[i], instances[cuts[i] : cuts[i + 1]]) for i in range(len(sizes))]
    assert keep_mask(far.round(9), np.array(sizes), ratio).tolist() == plain_keep(bags, ratio)  # ties as such


def test_a_run_says_what_was_chosen_and_left_out(tmp_path, capsys):
    options = {"bags": 20, "bag_size": 8, "recipe": "mpem", "backbone": "mlp", "epochs": 3}
    options |= {"settings": {"mpem.ratios": (0.3, 1.0)}, "method": "count", "device": "cpu", "out": tmp_path}
    result = train("digits", **options).result
    about, losses = result["mpem"], {}
    for ratio in ("0.3", "1.0"):
        lines = (tmp_path / f"stages/r{ratio}/metrics.jsonl").read_text().splitlines()
        losses[ratio] = min(json.loads(line)["val_loss"] for line in lines)
    assert about["val_loss"] == losses
    assert about["r"] == float(min(losses, key=losses.get))
    written = np.load(tmp_path / f"stages/r{about['r']}/left-out.npz")
    assert 0 < written["left_out"].mean() == pytest.approx(about["left_out"])
    assert not (written["left_out"] & ~written["candidates"]).any()
    page = (tmp_path / "report.html").read_text()
    assert f"{100 * about['left_out']:.0f} % of the training instances: r = " in page
    assert "mpem.ratios=[0.3, 1.0]" in page
    assert not list(tmp_path.glob("stages/*/*.safetensors"))
    capsys.readouterr()
    assert train("digits", **options).result == result
    assert "is finished" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--method", "vote"], "does not work with method vote: use method count or soft"),
        (
            ["--method", "count", "--set", "mpem.ratios=[0.5,1.5]"],
            "ratios is [0.5, 1.5]: give numbers above 0 and up to 1",
        ),
    ],
)
def test_wrong_settings_are_refused(majority, tmp_path, words, message):
    code, _, error = majority("train", "digits", "--recipe", "mpem", *words, "--out", tmp_path / "run")
    assert code == 2
    assert message in error
    assert not (tmp_path / "run").exists()
