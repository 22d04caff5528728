"""Classifier: instances, bags, and the file that holds it."""

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from majority import Bags, Classifier, Settings, build_model, evaluate, fit
from majority.data import device
from majority.errors import InputError
from majority.recipes.features import bags_of_features

CLASSES = ("owl", "ant", "bee")  # not in the order of the alphabet


def make_bags(images=False, sizes=(1, 6, 4, 3, 15), seed=0):
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    store = (
        rng.integers(256, size=(n, 6, 5, 1), dtype=np.uint8) if images else rng.normal(size=(n, 4)).astype("float32")
    )
    return Bags(store, rng.permutation(n), np.cumsum([0, *sizes]), np.arange(len(sizes)) % 3, CLASSES)


def make_classifier(bags, method="log-mean", backbone="auto", **more):
    model = build_model(bags, method, backbone, **more)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)  # predictions that differ from instance to instance
    return Classifier(model, "cpu")


def by_hand(classifier, instances):
    """One instance after the other."""
    model = classifier.model.eval()
    with torch.no_grad():
        logits = [model.head.classifier(model.features(torch.from_numpy(x)[None]))[0] for x in instances]
    return np.stack([row.softmax(dim=0).numpy() for row in logits])


# ---------------------------------------------------------------- instances


@pytest.mark.parametrize("images", [False, True])
def test_instances_are_classified_one_by_one(images, monkeypatch):
    monkeypatch.setattr(device, "BATCH_INSTANCES", 4)
    bags = make_bags(images)
    classifier = make_classifier(bags)
    classifier.model.train()
    probabilities = classifier.predict_proba(bags.store)
    assert probabilities.shape == (29, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(probabilities, by_hand(classifier, bags.store), rtol=1e-3, atol=1e-5)
    names = classifier.predict(bags.store)
    assert names.tolist() == [CLASSES[row.argmax()] for row in probabilities]
    assert len(set(names)) > 1


def test_large_images_go_through_the_network_in_small_batches(monkeypatch):
    for name in ("BATCH_PIXELS", "CPU_PIXELS"):
        monkeypatch.setattr(device, name, 4 * 6 * 5)
    bags, seen = make_bags(images=True), []
    classifier = make_classifier(bags)
    before = classifier.predict_proba(bags.store)
    classifier.model.backbone.register_forward_pre_hook(lambda module, given: seen.append(len(given[0])))
    np.testing.assert_allclose(classifier.predict_proba(bags.store), before, rtol=1e-4)
    evaluate(classifier.model, bags, "cpu")
    bags_of_features(classifier.model, bags, "cpu")
    assert max(seen) == 4, "even for a bag of 15"
    seen.clear()
    fit(classifier.model, bags, bags, Settings(epochs=1, batch_bags=1, max_instances=2), device="cpu")
    assert max(seen) == 4, "validation bags stay whole"


def test_no_instances_give_no_rows():
    classifier = make_classifier(make_bags())
    assert classifier.predict_proba(np.empty((0, 4), "float32")).shape == (0, 3)
    assert classifier.predict(np.empty((0, 4), "float32")).shape == (0,)


def test_instances_may_be_lists_of_another_float_type_and_read_only():
    bags = make_bags()
    classifier, locked = make_classifier(bags), bags.store.copy()
    locked.flags.writeable = False
    expected = classifier.predict_proba(bags.store)
    for same in (locked, bags.store.astype(np.float64), bags.store.tolist()):
        np.testing.assert_allclose(classifier.predict_proba(same), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("images", "instances", "message"),
    [
        (
            False,
            np.zeros((3, 5), "float32"),
            r"shape \(5,\) and dtype float32: .* is for float vectors of shape \(4,",
        ),
        (True, np.zeros((3, 6, 5, 3), np.uint8), r"shape \(6, 5, 3\) .* uint8 images of shape \(6, 5, 1\)"),
        (True, np.zeros((3, 6, 5, 1), "float32"), "dtype float32: this model is for uint8 images"),
        (False, np.full((3, 4), np.nan), "instance 0 holds NaN or infinity"),
    ],
)
def test_other_instances_are_refused(images, instances, message):
    classifier = make_classifier(make_bags(images))
    with pytest.raises(InputError, match=message):
        classifier.predict(instances)


def test_bags_of_other_instances_are_refused():
    with pytest.raises(InputError, match="is for uint8 images"):
        make_classifier(make_bags(images=True)).predict_bags(make_bags())
    bags = make_bags(images=True)
    larger = bags._with(store=np.repeat(bags.store, 2, axis=1))
    model = build_model(bags, "log-mean", "cnn")
    message = r"shape \(12, 5, 1\) .* uint8 images of shape \(6, 5, 1\)"
    with pytest.raises(InputError, match=message):
        evaluate(model, larger, "cpu")
    for train, val in ((larger, bags), (bags, larger)):
        with pytest.raises(InputError, match=message):
            fit(model, train, val, Settings(epochs=1), device="cpu")


def test_a_method_that_needs_the_bag_only_classifies_bags():
    bags = make_bags()
    classifier = Classifier(build_model(bags, "additive"), "cpu")
    with pytest.raises(
        InputError, match="method additive classifies an instance only within its bag: use predict_bags"
    ):
        classifier.predict(bags.store)
    assert classifier.predict_bags(bags).counts.sum(axis=1).tolist() == bags.sizes.tolist()


# ---------------------------------------------------------------- bags


def test_bags_are_counted(monkeypatch):
    monkeypatch.setattr(device, "BATCH_INSTANCES", 4)
    bags = make_bags(sizes=(1, 6, 4, 3, 15, 2, 2, 2))
    classifier = make_classifier(bags)
    found = classifier.predict_bags(bags)
    for i in range(len(bags)):
        guesses = by_hand(classifier, bags.bag(i)).argmax(axis=1).tolist()
        counts = [guesses.count(c) for c in range(3)]
        first, second = sorted(counts, reverse=True)[:2]
        assert found.counts[i].tolist() == counts
        assert found.majority[i] == CLASSES[counts.index(first)]
        assert found.share[i] == first / len(guesses)
        assert found.margin[i] == (first - second) / len(guesses)


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(("method", "images"), [("count", False), ("attention", True)])
def test_a_saved_classifier_gives_the_same_probabilities(tmp_path, method, images):
    bags = make_bags(images)
    classifier = make_classifier(bags, method, pixels="published")
    path = classifier.save(tmp_path / "model.safetensors", about={"source": "test"})
    before = torch.random.get_rng_state()
    back = Classifier.load(path, "cpu")
    assert torch.equal(torch.random.get_rng_state(), before)
    assert np.array_equal(back.predict_proba(bags.store), classifier.predict_proba(bags.store))
    assert tuple(back.classes) == CLASSES
    assert back.model.spec == classifier.model.spec
    assert torch.equal(back.model.normalise.mean, classifier.model.normalise.mean)
    assert torch.equal(back.model.normalise.std, classifier.model.normalise.std)
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]
    with safe_open(path, "pt") as file:
        assert '"source": "test"' in file.metadata()["majority"]


class Tied(nn.Module):
    """Two layers that share their weights."""

    def __init__(self, width=4):
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = self.first

    def forward(self, x):
        return self.second(self.first(x).relu())


def test_a_custom_backbone_must_be_passed_again(tmp_path):
    bags = make_bags()
    classifier = make_classifier(bags, "log-mean", Tied())
    fit(classifier.model, bags, bags, Settings(epochs=1), device="cpu", folder=tmp_path / "run")
    path = classifier.save(tmp_path / "own.safetensors")
    with pytest.raises(InputError, match=r"backbone: .*load\(path, backbone=module\)"):
        Classifier.load(path, "cpu")
    back = Classifier.load(path, "cpu", backbone=Tied())
    assert np.array_equal(back.predict_proba(bags.store), classifier.predict_proba(bags.store))
    with pytest.raises(InputError, match=r"own\.safetensors does not fit: it has no 'backbone"):
        Classifier.load(path, "cpu", backbone=nn.Sequential(nn.Linear(4, 9)))


def test_damaged_and_other_files_are_refused(tmp_path):
    path = make_classifier(make_bags()).save(tmp_path / "model.safetensors")
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(InputError, match=r"model\.safetensors is not .* damaged .*train again in another folder"):
        Classifier.load(path)
    save_file({"weight": torch.zeros(2)}, path, {"majority": '{"format": "majority-classifier-0"}'})
    with pytest.raises(InputError, match=r"has format 'majority-classifier-0', this version reads 'majority-class"):
        Classifier.load(path)


def test_notes_that_no_network_can_have_are_refused(tmp_path):
    path = make_classifier(make_bags()).save(tmp_path / "model.safetensors")
    with safe_open(path, "pt") as file:
        notes = file.metadata()["majority"]
    for shape, fact in (("[1099511627776]", "no network is like that"), ("[5]", "does not fit"), ("[0]", "damaged")):
        edited = notes.replace('"instance_shape": [4]', f'"instance_shape": {shape}')
        save_file(load_file(path), tmp_path / "edited.safetensors", {"majority": edited})
        with pytest.raises(InputError, match=f"edited.*{fact}"):
            Classifier.load(tmp_path / "edited.safetensors", "cpu")


def test_missing_files_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"there is no classifier file .*none\.safetensors: give"):
        Classifier.load(tmp_path / "none.safetensors")
    with pytest.raises(InputError, match=r"there is no classifier file .*/best\.safetensors: .* run folder"):
        Classifier.load(tmp_path)
