"""Mean, deviation and paired intervals against independently written references."""

import math

import numpy as np
import pytest
from scipy import stats

from majority.run.study.statistics import held_out_ratio, mean_by_fold, paired_difference, spread


def reference_interval(differences, train, test):
    """From the definition: s²(1/J + n_test/n_train), Student's t with J - 1 degrees of freedom."""
    differences = np.asarray(differences)
    variance = differences.var(ddof=1) * (1 / differences.size + test / train)
    return stats.t.interval(0.95, differences.size - 1, loc=differences.mean(), scale=math.sqrt(variance))


@pytest.mark.parametrize("folds", [2, 3, 5])
def test_the_interval_is_nadeau_and_bengios(folds):
    rng = np.random.default_rng(folds)
    ours, theirs = rng.random(folds), rng.random(folds)
    found = paired_difference(dict(enumerate(ours)), dict(enumerate(theirs)))
    assert (found.low, found.high) == pytest.approx(reference_interval(ours - theirs, 30_000, 10_000))
    assert found.mean == pytest.approx(np.mean(ours - theirs))
    assert found.sd == pytest.approx(np.std(ours - theirs, ddof=1))
    assert found.n == folds
    naive = stats.t.interval(0.95, folds - 1, loc=found.mean, scale=found.sd / math.sqrt(folds))
    assert found.low < naive[0]


def test_a_known_interval():
    found = paired_difference({0: 0.1, 1: 0.2, 2: 0.3}, {0: 0.0, 1: 0.0, 2: 0.0})
    assert found.high - found.mean == pytest.approx(4.302653 * math.sqrt(2 / 3) * 0.1)


def test_only_common_folds_are_compared_and_one_fold_has_no_interval():
    found = paired_difference({0: 0.5, 1: 0.9}, {1: 0.4, 2: 0.1})
    assert found == (pytest.approx(0.5), None, None, None, 1, None)
    assert paired_difference({0: 0.5}, {1: 0.5}) is None


def test_seeds_are_averaged_within_their_fold_first(cell):
    runs = [cell(accuracy=0.2, fold=0), cell(accuracy=0.4, fold=0, seed=1), cell(accuracy=0.9, fold=1)]
    folds = mean_by_fold(runs, "instance_accuracy")
    assert folds == pytest.approx({0: 0.3, 1: 0.9})
    assert spread([*folds.values()]) == (pytest.approx(0.6), pytest.approx(0.6 / math.sqrt(2)), 2)


def test_folds_without_the_figure_are_left_out(cell):
    runs = [cell(rate=None), cell(rate=0.7, fold=1), {**cell(fold=2), "test": {}}]
    assert mean_by_fold(runs, "consistency_rate") == {1: 0.7}
    assert spread([]) is None


def test_the_number_of_folds_determines_the_ratio_of_test_to_training_data(cell):
    assert held_out_ratio([cell()]) == pytest.approx(1 / 3)
    assert held_out_ratio([cell(folds=10)]) == pytest.approx(1 / 8)
    assert held_out_ratio([{"test": {}}]) == pytest.approx(1 / 3)
