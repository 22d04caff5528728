"""MajorityLabelClassifier under scikit-learn's own checks, with bags, and inside its model selection."""

import runpy
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from torch import nn

from majority import Bags, InputError, MajorityLabelClassifier, bag_accuracy

EXAMPLE = Path(__file__).parents[1] / "examples" / "sklearn_arrays.py"
NAMES = np.array(["owl", "ant", "bee"])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn_s_own_checks():
    check_estimator(quick(epochs=8, batch_bags=64, random_state=None))  # fewer steps than by default


def make_table(bags=60, size=7, noise=0.4, seed=0):
    """Clouds of three classes; in each bag 4 of 7 rows are of its label, the others of one other class."""
    rng = np.random.default_rng(seed)
    winner = rng.permutation(np.arange(bags) % 3)
    truth = np.repeat(winner[:, None], size, axis=1)
    truth[:, 4:] = (winner + 1 + np.arange(bags) // 3 % 2)[:, None] % 3
    X = 3 * np.eye(3)[truth.ravel()] + noise * rng.normal(size=(bags * size, 3))
    order = rng.permutation(bags * size)  # rows of a bag are not neighbours
    return (
        X[order],
        NAMES[np.repeat(winner, size)][order],
        np.repeat(np.arange(bags), size)[order],
        NAMES[truth.ravel()][order],
    )


def quick(**changes):
    network = {"recipe": "quick", "method": "adjusted-mean", "epochs": 15, "random_state": 0}
    return MajorityLabelClassifier(**network | changes)


# ---------------------------------------------------------------- bags


def test_rows_are_classified_from_bag_labels_alone():
    X, y, groups, truth = make_table()
    model = quick().fit(X, y, groups=groups)
    assert model.classes_.tolist() == ["ant", "bee", "owl"]
    assert (model.predict(X) == truth).mean() > 0.98  # 4 of 7 for a model that learns the labels of rows by heart
    assert model.score(X, y, groups=groups) == 1
    assert model.predict_proba(X[:5]).dtype == np.float64
    assert model.n_features_in_ == 3
    assert model.validation_bags_ == 12
    assert len(model.history_) == 15
    assert model.best_epoch_ == min(model.history_, key=lambda record: record["val_loss"])["epoch"]


def test_data_frames_and_integers_and_text_ids():
    X, y, groups, _ = make_table()
    whole = np.rint(100 * X).astype(int)
    ids = pd.Series([f"bag {number}" for number in groups])
    frame = pd.DataFrame(whole, columns=["a", "b", "c"])
    model = quick(epochs=3).fit(frame, pd.Series(y), groups=ids)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    by_number = np.unique(ids, return_inverse=True)[1]
    assert np.array_equal(model.predict_proba(frame), quick(epochs=3).fit(whole, y, ids.tolist()).predict_proba(whole))
    assert model.score(frame, y, ids) == model.score(frame, y, by_number)


def test_recipes_and_their_settings():
    X, y, groups, truth = make_table()
    settings = {"census.teachers": 1, "census.head.epochs": 5}
    model = quick(method="auto", recipe="census", epochs=4, settings=settings).fit(X, y, groups)
    assert (model.predict(X) == truth).mean() > 0.9
    assert len(model.history_) == 4
    assert len(quick(epochs=None, settings={"training.epochs": 3}).fit(X, y, groups).history_) == 3


def test_a_backbone_of_one_s_own_is_copied():
    X, y, groups, truth = make_table()
    torch.manual_seed(0)  # of the module's weights
    module = nn.Sequential(nn.Linear(3, 16), nn.ReLU())
    before = module[0].weight.detach().clone()
    model = quick(backbone=module, epochs=30).fit(X, y, groups)
    assert (model.predict(X) == truth).mean() > 0.9
    assert module[0].weight.equal(before)


# ---------------------------------------------------------------- score


class Fixed:
    """Says of each row what its only column holds."""

    def predict(self, X):
        return NAMES[np.asarray(X)[:, 0].astype(int)]


def test_bag_accuracy_counts_hard_predictions():
    said = np.array([[0], [1], [1], [2], [0], [2], [1]])
    groups = ["p", "p", "p", "q", "q", "q", "r"]
    y = ["ant", "ant", "ant", "bee", "bee", "bee", "owl"]  # the bags say ant (2 of 3), bee (2 of 3), ant
    assert bag_accuracy(Fixed(), said, y, groups) == pytest.approx(2 / 3)
    tied = np.array([[0], [1]])  # owl and ant, one each: the first in sorted order
    assert bag_accuracy(Fixed(), tied, ["ant", "ant"], [5, 5]) == 1
    assert bag_accuracy(Fixed(), tied, ["owl", "owl"], [5, 5]) == 0


def test_score_without_groups_is_accuracy_of_rows_and_says_so_of_bags():
    X, y, groups, truth = make_table(bags=30)
    model = quick().fit(X, y, groups)
    with pytest.warns(UserWarning, match="share of rows.*not the bag accuracy: pass groups=bag_ids") as caught:
        score = model.score(X, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert score == (model.predict(X) == y).mean()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert score < 0.7 < model.score(X, y, groups)
        assert model.score(X, truth, groups=range(len(X))) > 0.98  # said with intent
        alone = quick().fit(X, truth, groups=range(len(X)))
        assert alone.score(X, truth) == (alone.predict(X) == truth).mean()


# ---------------------------------------------------------------- which bags choose the epoch


@pytest.mark.parametrize(
    ("labels", "fraction", "held_out"),
    [
        ("ab" * 5, 0.2, 2),
        ("ab" * 4, 0.2, 0),  # 1.6 bags for two classes
        ("ab" * 5, 0, 0),
        ("aaaaaaaaab", 0.9, 0),  # b would be held out
    ],
)
def test_too_few_bags_are_all_trained_on(labels, fraction, held_out):
    y, groups = np.repeat(list(labels), 2), np.repeat(np.arange(len(labels)), 2)
    X = np.random.default_rng(0).normal(size=(len(y), 2))
    model = quick(epochs=1, validation_fraction=fraction).fit(X, y, groups)
    assert model.validation_bags_ == held_out


# ---------------------------------------------------------------- wrong input


def changed(values, row, value):
    other = np.asarray(values).astype(object)
    other[row] = value
    return other


@pytest.mark.parametrize(
    ("options", "change", "facts"),
    [
        ({}, lambda y, ids: (changed(y, 3, "?"), ids), "bag .* has two labels, .*?"),
        ({}, lambda y, ids: (changed(y, 3, None), ids), r"two labels, none \(row 3\)"),
        ({}, lambda y, ids: (changed(y, 3, np.nan), None), "row 3 has no label .nan."),
        ({}, lambda y, ids: (y, changed(ids, 3, pd.NA)), "row 3 has no bag id"),
        ({}, lambda y, ids: (y, ids[1:]), "42, 41"),
        ({"validation_fraction": 1.5}, lambda y, ids: (y, ids), r"validation_fraction is 1\.5: it must be"),
        ({"method": "additive"}, lambda y, ids: (y, ids), "only within its bag"),
        ({"method": "supervised"}, lambda y, ids: (y, ids), "instance labels"),
        ({"method": "magic"}, lambda y, ids: (y, ids), "no method"),
    ],
)
def test_wrong_input_is_named(options, change, facts):
    X, y, groups, _ = make_table(bags=6)
    with pytest.raises(ValueError, match=facts):
        quick(**options).fit(X, *change(y, groups))


def test_no_groups_is_a_warning_and_groups_of_one_row_are_none():
    X, y, _, _ = make_table(bags=6)
    with pytest.warns(UserWarning, match="fit got no groups.*pass groups=bag_ids"):
        quick().fit(X, y)
    with warnings.catch_warnings(action="error"):
        quick().fit(X, y, groups=range(len(y)))


# ---------------------------------------------------------------- model selection


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture
def bags_seen(monkeypatch):
    """The sizes of the bags that each fit is given."""
    seen = []
    original = MajorityLabelClassifier._split
    monkeypatch.setattr(
        MajorityLabelClassifier,
        "_split",
        lambda self, bags, seed: seen.append(bags.sizes) or original(self, bags, seed),
    )
    return seen


def test_grid_search_routes_groups_to_splitter_fit_and_score(routing, bags_seen):
    X, y, groups, truth = make_table(bags=30)
    search = GridSearchCV(quick(), {"epochs": [1, 15]}, cv=GroupKFold(3))
    search.fit(X, y, groups=groups)
    assert [len(sizes) for sizes in bags_seen] == [20] * 6 + [30]
    assert all((sizes == 7).all() for sizes in bags_seen)
    assert search.best_params_ == {"epochs": 15}
    assert search.best_score_ > 0.9  # of single rows 4 of 7 have their bag's label
    assert (search.predict(X) == truth).mean() > 0.95
    assert search.score(X, y, groups=groups) == 1


def test_without_routing_groups_do_not_reach_fit_and_both_say_so(bags_seen):
    """Why routing is needed: scikit-learn gives groups to the splitter alone."""
    X, y, groups, _ = make_table(bags=30)
    search = GridSearchCV(quick(epochs=1), {"epochs": [1]}, scoring=bag_accuracy, cv=GroupKFold(3), error_score="raise")
    with pytest.warns(UserWarning, match="got no groups"), pytest.raises(InputError, match="enable_metadata_routing"):
        search.fit(X, y, groups=groups)
    assert len(bags_seen[0]) == 140  # each row its own bag


def test_a_pipeline_fits_and_scores(routing, bags_seen):
    X, y, groups, _ = make_table(bags=30)
    pipeline = make_pipeline(StandardScaler(), quick()).fit(X, y, groups=groups)
    assert len(bags_seen[0]) == 30
    assert pipeline.score(X, y, groups=groups) > 0.95
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):  # weights of rows are nothing to a bag
        pipeline.score(X, y, sample_weight=np.ones(len(y)), groups=groups)


def test_what_was_learned_is_a_classifier(tmp_path):
    from majority import Classifier

    X, y, groups, _ = make_table(bags=12)
    model = quick(epochs=2).fit(X, y, groups)
    loaded = Classifier.load(model.classifier_.save(tmp_path / "model.safetensors"), "cpu")
    np.testing.assert_allclose(loaded.predict_proba(X.astype("float32")), model.predict_proba(X), atol=1e-5)
    counted = loaded.predict_bags(Bags.from_table(X.astype("float32"), groups, y))
    assert len(counted.majority) == 12


def test_the_example_runs(capsys):
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = capsys.readouterr().out
    assert "bag accuracy" in printed
    share = float(printed.split("instance accuracy ")[1].split("%")[0])
    assert share > 70


def test_labels_that_say_less_or_more():
    """Bags without a label, one of several, and runners-up: only where groups say which rows belong together."""
    X, y, groups, _ = make_table(bags=12)
    labels = y.astype(object)
    labels[groups == 2] = None
    several = "|".join(sorted(set(y)))
    labels[groups == 5] = several
    model = quick(epochs=5).fit(X, labels, groups)
    assert model.classes_.tolist() == sorted(set(y))
    known = ~np.isin(groups, [2, 5])
    right = round(model.score(X[known], y[known], groups[known]) * 10)
    assert model.score(X, labels, groups) == pytest.approx((right + 1) / 11)  # any class of several is right
    seconds = np.full(len(y), "", object)
    seconds[groups == 0] = next(name for name in sorted(set(y)) if name != y[groups == 0][0])
    ranked = quick(epochs=5).fit(X, y, groups, second_labels=seconds)
    plain = quick(epochs=5).fit(X, y, groups)
    assert not np.array_equal(ranked.predict_proba(X), plain.predict_proba(X))
    seconds[groups == 0] = y[groups == 0][0]
    with pytest.raises(InputError, match="and its runner-up"):
        quick().fit(X, y, groups, second_labels=seconds)


def test_instance_labels_of_some_rows():
    X, y, groups, truth = make_table(bags=12)
    few = np.full(len(y), None, object)
    few[::7] = truth[::7]
    asked, plain = (quick(epochs=5).fit(X, y, groups, instance_labels=labels) for labels in (few, None))
    assert not np.array_equal(asked.predict_proba(X), plain.predict_proba(X))
    with pytest.raises(InputError, match="row 0 has instance label other"):
        quick().fit(X, y, groups, instance_labels=np.where(np.arange(len(y)) == 0, "other", few))
    with pytest.raises(InputError, match=r"recipe mpem .* cannot learn a part of them"):
        quick(recipe="mpem").fit(X, y, groups, instance_labels=few)
