"""Splitting: labels and groups are divided as evenly as possible."""

import numpy as np

from majority.data.splitting import group_split, stratified_split

HALVES = np.array([0.5, 0.5])


def groups_of(*sizes):
    return np.repeat(np.arange(len(sizes)), sizes)


def test_a_fraction_that_is_a_whole_number_of_bags_is_exact():
    labels = np.concatenate([np.zeros(100, int), np.arange(1, 21)])
    parts = stratified_split(labels, np.array([0.29, 0.355, 0.355]), np.random.default_rng(0))
    assert (parts[:100] == 0).sum() == 29  # 0.29 * 100 is 28.99... in floating point


def test_large_groups_are_assigned_first_and_small_ones_balance_them():
    groups = groups_of(*[1] * 8, 8)
    parts = group_split(groups, np.zeros(16, int), HALVES, np.random.default_rng(0))
    assert np.bincount(parts).tolist() == [8, 8]


def test_if_all_parts_lack_a_label_equally_the_part_with_fewest_bags_gets_it():
    groups = groups_of(6, 5, 1)
    parts = group_split(groups, groups, HALVES, np.random.default_rng(0))
    assert np.bincount(parts).tolist() == [6, 6]


def test_no_part_is_empty_if_there_are_enough_groups():
    parts = group_split(groups_of(5, 5), np.zeros(10, int), np.array([0.9, 0.1]), np.random.default_rng(0))
    assert np.bincount(parts).tolist() == [5, 5]
