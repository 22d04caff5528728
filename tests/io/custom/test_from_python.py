"""Bags from Python objects: lists of arrays, tensors, pandas frames."""

import numpy as np
import pandas as pd
import pytest
import torch

from majority import Bags

RNG = np.random.default_rng(0)
PIECES = [RNG.normal(size=(size, 3)).astype(np.float32) for size in (2, 4, 1)]
LABELS = ["cat", "dog", "cat"]


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "wrap",
    [
        np.asarray,
        lambda piece: piece.tolist(),
        torch.from_numpy,
        lambda piece: torch.from_numpy(piece).requires_grad_(),
        lambda piece: torch.from_numpy(piece).bfloat16(),
        lambda piece: pd.DataFrame(piece, columns=["a", "b", "c"]),
    ],
    ids=["arrays", "lists", "tensors", "tensors with gradients", "bfloat16", "frames"],
)
def test_from_lists(wrap):
    bags = Bags.from_lists([wrap(piece) for piece in PIECES], pd.Series(LABELS), coordinates=[p[:, :2] for p in PIECES])
    assert bags.sizes.tolist() == [2, 4, 1]
    assert np.allclose(bags.store, np.concatenate(PIECES), atol=0.02)
    assert bags.classes == ("cat", "dog")


def frame():
    table = pd.DataFrame(np.concatenate(PIECES), columns=["a", "b", "c"])
    bags = np.repeat(["p", "q", "r"], [2, 4, 1])
    return table.assign(bag=bags, label=np.repeat(LABELS, [2, 4, 1])).sample(frac=1, random_state=1)


def test_from_a_data_frame():
    table = frame()
    bags = Bags.from_table(table[["a", "b", "c"]], table["bag"], table["label"].astype("category"), groups=table["bag"])
    assert sorted(bags.names) == ["p", "q", "r"]
    for i, name in enumerate(bags.names):
        assert np.array_equal(bags.bag(i), table[table["bag"] == name][["a", "b", "c"]])
    assert dict(zip(bags.names, bags.labels.tolist(), strict=True)) == {"p": 0, "q": 1, "r": 0}


def test_from_a_table_of_tensors():
    store, ids = torch.rand(6, 3), torch.tensor([0, 0, 1, 1, 2, 2])
    bags = Bags.from_table(
        store, ids, torch.tensor([5, 5, 9, 9, 5, 5]), instance_labels=torch.tensor([5, 9, 9, 9, 5, 5])
    )
    assert bags.classes == ("5", "9")
    assert bags.instance_labels.tolist() == [0, 1, 1, 1, 0, 0]
    assert np.array_equal(bags.store, store.numpy())
