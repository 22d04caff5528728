"""Bag losses weighted by the validation bags: the likelihood, the weights, and census without a named method."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from majority import Bags, Settings, build_model, load_source, train
from majority.data.labels import BagLabels
from majority.errors import InputError
from majority.predict.label_likelihood import label_log_probs
from majority.recipes import Plan, Run, census
from majority.recipes.census import CensusSettings
from majority.recipes.losses import LOSSES, label_counts, label_log_likelihood, loss_weights, predicted_shares

REAL_DISTILL = census.recipe.distill
TRAINING = Settings(epochs=2, batch_bags=8)
THREE = CensusSettings(head=Settings(epochs=3, batch_bags=16, learning_rate=0.02), teachers=3)


def run_of(folder, parts, settings=THREE, backbone="mlp", training=TRAINING):
    plan = Plan("census", backbone, training=training, own=settings)

    def fresh(number=0, method=None):
        return build_model(parts.train, method, backbone, seed=number)

    return Run(folder, parts.train, parts.val, plan, fresh, "test", "cpu", losses=LOSSES)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, vectors):
    """What an undisturbed run leaves."""
    return census.train(run_of(tmp_path_factory.mktemp("whole"), vectors()))


# ---------------------------------------------------------------------- the criterion


def test_the_likelihood_is_that_of_the_best_sharpness():
    rng = np.random.default_rng(0)
    shares, labels = rng.dirichlet(np.ones(4), 30), rng.integers(4, size=30)
    shares[np.arange(30), labels] += 0.1  # not all of it is noise
    counts = np.array([20, 5, 0, 75])
    base = np.log(np.array([21, 6, 1, 76]) / 104)

    def loss(sharpness):
        scores = log_softmax(base + sharpness * (shares - shares.mean(axis=0)), axis=1)
        return -np.mean([scores[bag, label] for bag, label in enumerate(labels)])

    best = minimize_scalar(loss, bounds=(0.1, 100), method="bounded").fun
    assert label_log_probs(shares, BagLabels.of(labels, 4), counts)[1].mean() == pytest.approx(-best, abs=1e-3)


def test_validation_bags_without_a_label_say_nothing(vectors):
    parts = vectors()
    model = build_model(parts.train, "log-mean", "mlp", seed=1)
    known = np.arange(len(parts.val)) % 2 == 0
    some = parts.val._with(bag_labels=parts.val.bag_labels.masked(known))
    of_some, of_labelled = (
        label_log_likelihood(model, parts.train, val, "cpu") for val in (some, parts.val.subset(known))
    )
    assert of_some == of_labelled


def test_predicting_the_frequent_label_everywhere_explains_no_more_than_its_frequency():
    labels, counts = np.repeat([0, 1], [9, 1]), np.array([89, 9])
    always_first = np.tile([1.0, 0.0], (10, 1))
    entropy = 0.9 * np.log(0.9) + 0.1 * np.log(0.1)
    assert label_log_probs(always_first, BagLabels.of(labels, 2), counts)[1].mean() == pytest.approx(entropy)


def test_soft_and_hard_predictions_of_the_same_order_explain_the_same():
    rng = np.random.default_rng(1)
    hard, labels = rng.dirichlet(np.ones(3), 40), rng.integers(3, size=40)
    soft = 0.2 * hard + 0.8 / 3
    one, other = (label_log_probs(shares, BagLabels.of(labels, 3), np.ones(3))[1].mean() for shares in (hard, soft))
    assert one == pytest.approx(other, abs=1e-3)


def test_predicted_shares_are_mean_probabilities_of_each_bag(vectors):
    parts = vectors(bags=9)
    model = build_model(parts.train, "vote", "mlp")
    probabilities = census.instance_probabilities(model, parts.val, "cpu").numpy()
    expected = [probabilities[start:stop].mean(axis=0) for start, stop in zip(*_ends(parts.val), strict=True)]
    assert predicted_shares(model, parts.val, "cpu") == pytest.approx(np.array(expected), abs=1e-6)


def _ends(bags):
    return bags.offsets[:-1], bags.offsets[1:]


def test_a_background_is_left_out():
    """The likelihood is the same whatever the number of the background class."""
    rng = np.random.default_rng(0)
    lists = [rng.normal(size=(6, 2)).astype(np.float32) for _ in range(8)]

    def found(names, background):
        labels = [names[bag % 2] for bag in range(8)]
        bags = Bags.from_lists(lists, labels, sorted([*names, background])).with_background(background)
        model = build_model(bags, "vote", "linear")
        for parameter in (model.head.classifier.weight, model.head.classifier.bias):
            order = [bags.classes.index(name) for name in (*names, background)]
            parameter.data[order] = parameter.data.new_tensor(
                np.random.default_rng(5).normal(size=tuple(parameter.shape))
            )
        return label_log_likelihood(model, bags, bags, "cpu")

    assert found(["b", "c"], "a") == pytest.approx(found(["b", "c"], "d"), abs=1e-6)


def test_more_bags_make_the_difference_count_more():
    found, methods = {"one": -0.4, "two": -0.5}, {"one": "vote", "two": "soft-count"}
    few, many = (loss_weights(found, methods, bags, np.array([5, 5]))["one"] for bags in (10, 1000))
    assert 0.5 < few < 0.6 < 0.99 < many


def test_without_evidence_adjusted_mean_counts_more_the_more_even_the_labels_are():
    found, methods = {"a": 0.0, "b": 0.0, "c": 0.0}, {"a": "adjusted-mean", "b": "soft-count", "c": "vote"}
    even, skewed, one = (loss_weights(found, methods, 20, np.array(c)) for c in ([9, 9, 9], [15, 8, 4], [27, 0, 0]))
    assert even["a"] == pytest.approx(3 / 5)
    assert one["a"] == pytest.approx(0.5 / 2.5)
    assert even["a"] > skewed["a"] > one["a"]
    for weights in (even, skewed, one):
        assert weights["b"] == weights["c"]
        assert sum(weights.values()) == pytest.approx(1)


def test_the_labels_that_are_counted_name_one_class_and_no_background():
    lists = [np.zeros((2, 1), np.float32)] * 5
    bags = Bags.from_lists(lists, ["b", "b", "c", "b|c", "c"], ["a", "b", "c"]).with_background("a")
    assert label_counts(bags).tolist() == [2, 2]


# ---------------------------------------------------------------------- census without a named method


def test_each_start_has_a_teacher_of_each_loss_and_the_student_learns_all(whole):
    heads = [f"head-{loss}" for loss in LOSSES]
    teachers = [f"{kind}-{n}-{loss}" for kind in ("teacher", "distilled-teacher") for n, loss in enumerate(LOSSES, 1)]
    assert list(whole.stages) == [*heads, "distilled", *teachers, "student"]
    about = whole.summary()["losses"]
    assert list(about["teachers"]) == teachers
    assert sum(teacher["weight"] for teacher in about["teachers"].values()) == pytest.approx(1)
    assert about["chosen"] == max(LOSSES, key=lambda loss: about["weights"][loss]) == whole.model.spec.method


def test_teachers_of_all_losses_and_starts_train_on_a_gpu(tmp_path, gpu, vectors):
    trained = census.train(replace(run_of(tmp_path, vectors()), device="cuda"))
    assert {parameter.device.type for parameter in trained.model.parameters()} == {"cuda"}


def test_the_student_learns_the_weighted_mean_with_offsets(tmp_path, monkeypatch, vectors):
    learned = {}
    real = Run.fit

    def fit(self, model, folder, title, *args, **options):
        learned[folder.name] = options.get("soft_labels")
        return real(self, model, folder, title, *args, **options)

    monkeypatch.setattr(Run, "fit", fit)
    given = iter(np.eye(3)[[0, 1, 2]])
    monkeypatch.setattr(
        census.stages,
        "instance_probabilities",
        lambda model, bags, device: build_tensor(next(given), len(bags.index)),
    )
    offsets = np.array([0.5, -0.5, 0.0])
    monkeypatch.setattr(census.recipe, "find_offsets", lambda *_: torch.from_numpy(offsets))
    parts = vectors()
    trained = census.train(run_of(tmp_path, parts, replace(THREE, head=None)))
    weights = [teacher["weight"] for teacher in trained.about["losses"]["teachers"].values()]
    assert [*trained.about["losses"]["class_offsets"].values()] == offsets.tolist()
    squared = np.square(weights * np.exp(offsets))
    assert learned["student"][0] == pytest.approx(squared / squared.sum(), rel=1e-4)


def build_tensor(row, n):
    return torch.tensor(np.tile(row, (n, 1)), dtype=torch.float32)


def test_pretrained_images_have_a_head_of_each_loss(tmp_path):
    views = ("affine", "noise")
    own = CensusSettings(
        Settings(epochs=1, batch_bags=32, drop_last=True, augment=views), Settings(epochs=1, batch_bags=8), teachers=3
    )
    parts = load_source("digits").make_parts(scenario="large", bags=24, bag_size=8)
    run = run_of(tmp_path, parts, own, "tiny", Settings(epochs=1, batch_bags=8, augment=views))
    teachers = [f"teacher-{number}-{loss}" for number, loss in enumerate(LOSSES, 1)]
    expected = ["pretrain", *(f"head-{loss}" for loss in LOSSES), *teachers, "student"]
    assert list(census.train(run).stages) == expected


def test_fewer_teachers_than_losses_are_possible(tmp_path, vectors):
    trained = census.train(run_of(tmp_path, vectors(), replace(THREE, head=None, teachers=1)))
    assert list(trained.stages) == ["teacher-1-adjusted-mean", "student"]


def test_no_instance_label_reaches_the_weights(tmp_path, whole, same, vectors):
    parts, rng = vectors(), np.random.default_rng(3)

    def mixed(bags):
        return bags._with(instance_labels=rng.permutation(bags.instance_labels))

    other = census.train(run_of(tmp_path, parts._replace(train=mixed(parts.train), val=mixed(parts.val))))
    assert same(whole.model, other.model)
    assert whole.summary()["losses"] == other.summary()["losses"]


def test_stopped_before_each_stage_it_ends_the_same(tmp_path, whole, check_going_on, vectors):
    run = run_of(tmp_path, vectors())
    check_going_on(run, whole, ["head_on_discriminants", "train_teacher", "distill"], "discriminants")
    assert census.train(run).summary()["losses"] == whole.summary()["losses"]


def test_offsets_that_were_found_stay(tmp_path, monkeypatch, vectors):
    """Also those of a run that was stopped before its student."""
    run, path = run_of(tmp_path, vectors()), tmp_path / "stages" / "class-offsets.json"
    learned = []

    def capture(run, model, soft_labels, folder, title):
        if folder.name == "student":
            learned.append(soft_labels())
            raise KeyboardInterrupt
        return REAL_DISTILL(run, model, soft_labels, folder, title)

    monkeypatch.setattr(census.recipe, "distill", capture)
    for offsets in (None, {"a": 2.0, "b": -2.0, "c": 0.0}, {"a": 0.0, "b": "much", "c": 0.0}):
        if offsets:
            path.write_text(json.dumps({"class_offsets": offsets}))
        if offsets and offsets["b"] == "much":
            with pytest.raises(InputError, match=r"class-offsets\.json is damaged .*b.*: remove it"):
                census.train(run)
        else:
            with pytest.raises(KeyboardInterrupt):
                census.train(run)
    found, changed = (labels.log() - labels.log().mean(dim=1, keepdim=True) for labels in learned)
    difference = (changed - found)[0].numpy()
    assert difference == pytest.approx((changed - found).mean(dim=0).numpy(), abs=1e-3), "the same for all instances"
    assert difference[0] - difference[1] == pytest.approx(4, abs=0.5), "the file was read"


def test_without_class_offsets_the_student_learns_the_mean(tmp_path, vectors):
    about = census.train(run_of(tmp_path, vectors(), replace(THREE, class_offsets=False))).about["losses"]
    assert "class_offsets" not in about
    assert not (tmp_path / "stages" / "class-offsets.json").exists()


def test_the_default_of_a_recipe_with_one_loss_is_a_method_with_a_name(tmp_path):
    quick = train("digits", bags=8, bag_size=8, recipe="quick", epochs=1, verbose=False, out=tmp_path).result
    assert (quick["method"], "losses" in quick) == ("adjusted-mean", False)


def test_options_need_a_named_method():
    with pytest.raises(InputError, match=r"has no option 'of'.*--method"):
        train("digits", method_options={"of": "counts"})
