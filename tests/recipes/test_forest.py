"""The recipe forest: trees of scikit-learn as one model, and the baseline of every run on vectors."""

import numpy as np
import pytest
import torch
from sklearn.tree import ExtraTreeClassifier

import majority
from majority.errors import InputError
from majority.nn.backbones import create_backbone
from majority.nn.backbones.trees import Trees
from majority.predict.onnx import export_onnx


@pytest.fixture(scope="module")
def bags():
    """Two classes of which one has most of the labels, on a line that both share in the middle."""
    rng = np.random.default_rng(0)
    winners = (np.arange(60) % 4 == 0).astype(int)
    true = [np.r_[np.full(9, winner), rng.integers(0, 2, 6)] for winner in winners]
    instances = [(classes[:, None] * 2 + rng.normal(size=(15, 3))).astype(np.float32) for classes in true]
    return majority.Bags.from_lists(
        instances,
        [("oak", "fir")[winner] for winner in winners],
        instance_labels=[np.array(["oak", "fir"])[classes] for classes in true],
    )


@pytest.fixture(scope="module")
def run(bags):
    return majority.train(bags, recipe="forest", verbose=False, device="cpu")


def test_a_network_beside_trees_has_its_share_of_the_log_probabilities():
    rng = np.random.default_rng(0)
    instances, labels = rng.normal(size=(100, 5)).astype(np.float32), rng.integers(0, 4, 100)
    trees, x = Trees.of([ExtraTreeClassifier(random_state=0).fit(instances, labels)], 4), torch.from_numpy(instances)
    alone, backbone = trees(x), create_backbone("mlp", (5,))
    trees.add_network("mlp", backbone, backbone.out_features)
    trees.share.fill_(0.25)
    assert torch.allclose(trees(x), 0.75 * alone + 0.25 * trees.network(x).log_softmax(dim=1), atol=1e-6)
    rebuilt = create_backbone(trees.name, (5,))
    rebuilt.load_state_dict(trees.state_dict())
    assert torch.equal(rebuilt(x), trees(x))


def test_trees_give_what_scikit_learn_gives():
    rng = np.random.default_rng(0)
    instances, labels = rng.normal(size=(400, 5)).astype(np.float32), rng.integers(0, 4, 400)
    grown = [ExtraTreeClassifier(random_state=seed).fit(instances, labels) for seed in range(5)]
    trees = Trees.of(grown, 4)
    expected = np.mean([tree.predict_proba(instances) for tree in grown], axis=0)
    assert np.allclose(trees.label_scores(torch.from_numpy(instances)), expected, atol=1e-6)
    rebuilt = create_backbone(trees.name, (5,))
    rebuilt.load_state_dict(trees.state_dict())
    assert torch.equal(rebuilt(torch.from_numpy(instances)), trees(torch.from_numpy(instances)))


def test_a_forest_classifies_instances_and_is_read_back(run, bags, tmp_path):
    assert run.metrics["instance_accuracy"] > 0.8
    path = run.classifier.save(tmp_path / "forest.safetensors")
    loaded = majority.Classifier.load(path, "cpu")
    assert np.array_equal(loaded.predict_proba(bags.instances()), run.classifier.predict_proba(bags.instances()))


def test_a_forest_is_exported_as_one_graph(run, tmp_path):
    pytest.importorskip("onnxscript")
    assert export_onnx(run.classifier, tmp_path / "forest.onnx").stat().st_size > 0


def test_every_run_on_vectors_says_what_a_forest_is_right_about(run, bags):
    quick = majority.train(bags, recipe="quick", method="adjusted-mean", epochs=1, verbose=False, device="cpu")
    for one in (run, quick):
        assert one.result["baseline"] == {"name": "forest", "bag_accuracy": pytest.approx(0.9, abs=0.11)}


def test_images_are_refused():
    with pytest.raises(InputError, match="vectors"):
        majority.train("digits", recipe="forest", verbose=False)
