"""census: its stages, what they leave, that they go on after a stop, and that no instance label reaches them."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from majority import InputError, Settings, build_model, load_source
from majority.embedding import embedded
from majority.objectives import SelfTraining
from majority.recipes import RECIPES, Material, Plan, Run, census
from majority.recipes.plans import CensusSettings
from majority.streams import placed

STRONG = ("affine", "noise")
QUICK = Settings(epochs=2, batch_bags=8, strong=STRONG)
WITH_START = CensusSettings(
    Settings(epochs=2, batch_bags=32, whole_steps=True, strong=STRONG), Settings(epochs=3, batch_bags=8)
)


def digits(scenario="large"):
    return load_source("digits").make_parts(scenario=scenario, bags=24, bag_size=8)


def run_of(folder, parts, method="log-mean", settings=WITH_START, backbone="tiny"):
    plan = Plan("census", backbone, training=QUICK, census=settings)
    fresh = lambda: build_model(parts.train, method, backbone)
    return Run(folder, parts.train, parts.val, plan, fresh, "test", "cpu")


def same(one, other):
    return all(torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items())


# ---------------------------------------------------------------------- as a user sees it


def test_the_command_trains_tiny_images(majority, tmp_path):
    words = ["train", "digits", "--recipe", "census", "--bags", "20", "--bag-size", "8", "--epochs", "2"]
    words += ["--set", "census.momentum=0.9", "--out", tmp_path / "run"]
    code, out, _ = majority(*words)
    assert code == 0
    assert "stage self-training: epoch" in out
    result = json.loads((tmp_path / "run/result.json").read_text())
    assert set(result["stages"]) == {"self-training"}, "tiny images have no self-supervised start"
    assert result["plan"]["census"]["momentum"] == 0.9
    assert not list((tmp_path / "run").rglob("checkpoint.safetensors"))
    code, out, _ = majority(*words)
    assert code == 0
    assert "is finished" in out
    assert "--set census.momentum=0.9" in (tmp_path / "run/report.html").read_text()


def test_the_command_trains_vectors(majority, tmp_path):
    rng = np.random.default_rng(0)
    lines = ["bag,bag_label,f0,f1"]
    for bag in range(20):
        lines += [f"{bag},{'ab'[bag % 2]},{rng.normal(bag % 2):.3f},{rng.normal():.3f}" for _ in range(5)]
    (tmp_path / "bags.csv").write_text("\n".join(lines) + "\n")
    words = ["train", tmp_path / "bags.csv", "--recipe", "census", "--epochs", "2", "--out", tmp_path / "run"]
    assert majority(*words)[0] == 0
    assert json.loads((tmp_path / "run/result.json").read_text())["plan"]["backbone"] == "mlp"


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("census.speed=3", "the plan has no setting 'census.speed': it has start, head, temperature"),
        ("census.start.epochs=3", "'census.start.epochs': there is nothing below it in this plan"),
        ("training.epochs", "--set training.epochs: write KEY=VALUE, as in training.weight_decay=0.05"),
        ("training.epochs=0", "epochs is 0: it must be above 0"),
        ("recipe=paper", "the plan has no setting 'recipe'"),
    ],
)
def test_wrong_settings_are_refused(majority, tmp_path, pair, message):
    code, _, error = majority("train", "digits", "--recipe", "census", "--set", pair, "--out", tmp_path / "run")
    assert code == 2
    assert message in error
    assert not (tmp_path / "run").exists()


def test_plans_follow_the_material():
    plan = lambda *material: RECIPES["census"].plan(Material(*material))
    assert (plan("mine", (64,), True).backbone, plan("mine", (64,), True).census.start) == ("mlp", None)
    assert (plan("digits", (8, 8, 1), True).backbone, plan("digits", (8, 8, 1), True).census.start) == ("tiny", None)
    assert plan("cifar10", (32, 32, 3), False).backbone == "cnn"
    on_gpu = plan("cifar10", (32, 32, 3), True)
    assert on_gpu.backbone == "resnet18-small"
    names = lambda views: {view if isinstance(view, str) else view[0] for view in views}
    assert names(on_gpu.census.start.strong) == {"flip", "resized-crop", "colour", "hue", "grey"}
    assert "flip" not in names(plan("svhn28", (28, 28, 3), True).census.start.strong)
    assert "rotate90" in names(plan("pathmnist", (28, 28, 3), True).census.start.strong)
    assert names(plan("my photos", (64, 64, 3), True).census.start.strong) == {"resized-crop"}


# ---------------------------------------------------------------------- its stages


def test_every_stage_is_trained_and_told(tmp_path):
    trained = census.train(run_of(tmp_path, digits()))
    assert list(trained.stages) == ["start", "head", "self-training"]
    assert trained.summary()["stages"]["head"]["epochs"] == 3
    assert trained.fitted is trained.stages["self-training"]


def test_the_head_stage_leaves_the_network_alone(tmp_path):
    parts = digits()
    run = run_of(tmp_path, parts)
    model = run.fresh_model()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    census._head(run, model, tmp_path / "head", "head")
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"head.classifier.weight", "head.classifier.bias"}


def test_a_head_alone_reads_what_the_whole_model_reads():
    parts = digits()
    model = build_model(parts.train, "count", "tiny").eval()
    features = embedded(model, parts.train, "cpu")
    alone = census.head_alone(model, features).eval()
    (batch,), (of_features,) = (placed(bags, torch.device("cpu")).in_order(9_999) for bags in (parts.train, features))
    with torch.no_grad():
        whole = model(batch.instances, batch.segments).instance_log_probs
        read = alone(of_features.instances, of_features.segments).instance_log_probs
    torch.testing.assert_close(read, whole, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_a_stage_read_back_is_trained_on(tmp_path):
    parts = digits()
    run = run_of(tmp_path, parts)
    whole = census.train(run).model
    shutil.rmtree(tmp_path / "stages" / "self-training")
    shutil.rmtree(tmp_path / "stages" / "head")
    again = census.train(replace(run, device="cuda")).model
    assert not same(again.cpu(), whole.cpu()), "another device rounds otherwise; what counts is that it trained"


@pytest.mark.parametrize("method", ["supervised", "proportion", "attention", "vote"])
def test_other_methods_take_the_same_way(tmp_path, method):
    trained = census.train(run_of(tmp_path, digits(), method))
    assert trained.fitted.epochs == 2


def test_no_instance_label_reaches_any_stage(tmp_path):
    parts = digits()
    rng = np.random.default_rng(3)
    scrambled = parts._replace(
        **{
            name: getattr(parts, name)._with(instance_labels=rng.permutation(getattr(parts, name).instance_labels))
            for name in ("train", "val")
        }
    )
    one, other = (census.train(run_of(tmp_path / name, p)) for name, p in (("a", parts), ("b", scrambled)))
    assert same(one.model, other.model)
    assert one.summary()["stages"] == other.summary()["stages"]


@pytest.mark.parametrize("at", ["_start", "_head", "_self_training"])
def test_stopped_before_any_stage_it_ends_the_same(tmp_path, monkeypatch, at):
    parts = digits()
    whole = census.train(run_of(tmp_path / "whole", parts))

    def stops(*given):
        raise KeyboardInterrupt

    real = getattr(census, at)
    monkeypatch.setattr(census, at, stops)
    with pytest.raises(KeyboardInterrupt):
        census.train(run_of(tmp_path / "stopped", parts))
    monkeypatch.setattr(census, at, real)
    assert same(census.train(run_of(tmp_path / "stopped", parts)).model, whole.model)


# ---------------------------------------------------------------------- lessons


def test_lessons_rise_between_two_epochs():
    model = build_model(digits().train, "log-mean", "tiny")
    objective = SelfTraining(model, weight=2.0, rise=(0.2, 0.6))
    weights = []
    for part in (0.0, 0.2, 0.4, 0.6, 0.9):
        objective.begin_epoch(part)
        weights.append(objective.weight_now.item())
    assert weights == pytest.approx([0, 0, 1, 2, 2])
    with pytest.raises(InputError, match=r"no setting 'census\.rise\.first'"):
        Plan("census", census=CensusSettings()).with_settings({"census.rise.first": 1})
