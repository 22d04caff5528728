"""A background class does not vote: formulas against references, metrics, files, bags, the command, errors."""

import numpy as np
import pytest
import torch

from majority import Bags, Classifier, Settings, build_model, evaluate, fit, make_bags
from majority.data.background import Background
from majority.errors import InputError

# ---------------------------------------------------------------- metrics


def fixed_classifier(background=True):
    """Instances are one-hot vectors of their own class; class 1 does not vote."""
    bags = Bags.from_lists([np.eye(3, dtype=np.float32)[[0, 1, 1, 1, 2, 2]]], ["c"], "abc")
    bags = bags.with_background("b") if background else bags
    model = build_model(bags, "log-mean", torch.nn.Identity())
    with torch.no_grad():
        model.head.classifier.weight.copy_(20 * torch.eye(3))
        model.head.classifier.bias.zero_()
        model.normalise.mean.zero_()
        model.normalise.std.fill_(1)
    return Classifier(model, "cpu"), bags


def test_bags_are_predicted_by_their_voters():
    classifier, bags = fixed_classifier()
    found = classifier.predict_bags(bags)
    assert found.counts.tolist() == [[1, 3, 2]]
    assert found.majority.tolist() == ["c"]
    assert found.share.tolist() == pytest.approx([2 / 3])
    assert found.margin.tolist() == pytest.approx([1 / 3])
    no_votes = Bags.from_lists([np.eye(3, dtype=np.float32)[[1, 1]]], ["c"], "abc")
    found = classifier.predict_bags(no_votes)
    assert (found.majority[0], found.share[0], found.margin[0]) == ("b", 0, 0)
    assert evaluate(classifier.model, no_votes, "cpu").summary()["bag_accuracy"] == 0
    assert fixed_classifier(background=False)[0].predict_bags(bags).majority.tolist() == ["b"]


# ---------------------------------------------------------------- bags


def blobs(n_bags, seed, **more):
    rng = np.random.default_rng(seed)
    classes = np.arange(2000) % 4
    store = (2 * np.eye(4, 6)[classes] + 0.4 * rng.normal(size=(2000, 6))).astype(np.float32)
    options = {"n_bags": n_bags, "size": 16, "background": "c", "rng": rng}
    return make_bags(store, classes, "abcd", **options | more)


def test_drawn_bags_have_a_share_of_background_and_the_label_of_their_voters():
    bags = blobs(300, seed=0, size=20, scenario=(0.5, 0.8), background_shares=(0.2, 0.9))
    counts = bags.class_counts()
    shares = counts[:, 2] / 20
    assert (shares.min(), shares.max()) == (0.2, 0.9)
    assert shares.mean() == pytest.approx(0.55, abs=0.04)
    assert (counts.argmax(axis=1) == 2).mean() > 0.4  # most common of all, and no label
    assert (np.delete(counts, 2, axis=1).argmax(axis=1) == np.array([0, 1, -1, 2])[bags.labels]).all()
    enough = counts[:, 2] <= 10
    assert bags.majority_proportions()[enough].min() >= 0.4
    assert bags.majority_proportions()[enough].max() <= 0.9
    constant = blobs(20, seed=0, background_shares=(0.25, 0.25))
    assert set(constant.class_counts()[:, 2]) == {4}
    assert blobs(200, seed=1, ties="resample", size=32).tie_rate() == 0
    assert set(blobs(60, seed=1, winner_prior=[1, 0, 1], ties="resample", size=32).labels) == {0, 3}


# ---------------------------------------------------------------- errors


def two_bags(labels=("a", "b")):
    return Bags.from_lists([np.ones((2, 3), np.float32)] * 2, labels, names=["slide-1", "slide-2"])


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            lambda: two_bags().with_background("b"),
            r"bag 1 \(slide-2\) has the label b, the background.*or leave out bags",
        ),
        (
            lambda: two_bags().with_background("n").with_other_labels({1: "n"}),
            "bag 1 .* has the label n, the background",
        ),
        (lambda: two_bags(["a", "a"]).with_background("n"), "classes a, n, background 'n'.* 2 other classes"),
        (lambda: Background(0, share=1.0), "background share 1.0: .* between 0 and 1"),
        (
            lambda: build_model(two_bags(), "vote", background_share=0.2),
            "background_share is given without a background",
        ),
        (lambda: blobs(4, 0, background_shares=(0.5, 1.0)), "background shares from 0.5 to 1 of bags of 16"),
    ],
)
def test_wrong_backgrounds_are_errors(action, message):
    with pytest.raises(InputError, match=message):
        action()


def test_a_model_is_trained_and_evaluated_on_bags_with_its_background():
    marked = two_bags().with_background("n")
    model = build_model(marked, "count")
    unmarked = Bags(marked.store, marked.index, marked.offsets, marked.labels, marked.classes)
    with pytest.raises(InputError, match="different background"):
        fit(model, unmarked, marked, Settings(epochs=1), device="cpu")
    wrong = Bags(marked.store, marked.index, marked.offsets, [0, 2], marked.classes)
    with pytest.raises(InputError, match="bag 1 has the label n, the background"):
        evaluate(model, wrong, "cpu")
