"""Input from Python that cannot be used as it is: it is converted, or an error names the cure."""

import numpy as np
import pandas as pd
import pytest

from majority import Bags, InputError


def test_class_names_may_mix_text_and_numbers():
    mixed = np.array(["a", 1, 10, 9], object)
    bags = Bags.from_lists([np.ones((1, 2))] * 4, labels=mixed)
    assert bags.classes == ("1", "10", "9", "a")
    assert [bags.classes[label] for label in bags.labels] == ["a", "1", "10", "9"]
    truth = Bags.from_lists([np.ones((1, 2))] * 2, labels=mixed[:2], instance_labels=[mixed[1:2], mixed[:1]])
    assert [truth.classes[label] for label in truth.instance_labels] == ["1", "a"]
    numbers = Bags.from_lists([np.ones((1, 2))] * 3, labels=np.array([10, 9, 2], object))
    assert numbers.classes == ("2", "9", "10")


@pytest.mark.parametrize(
    "ids",
    [
        ["p", "p", None, None, "q"],
        [1, 1, np.nan, np.nan, 2],
        pd.array([1, 1, None, None, 2]),
        pd.to_datetime(["2024-05-01", "2024-05-01", None, None, "2024-05-02"]),
    ],
)
def test_rows_without_a_bag_id_are_errors(ids):
    with pytest.raises(InputError, match=r"row 2 has no bag id \((None|nan|<NA>|NaT)\): fill it in, or leave the row"):
        Bags.from_table(np.eye(5), ids, ["a", "a", "b", "b", "b"])
