"""Input from Python that cannot be used as it is: it is converted, or an error names the cure."""

import numpy as np
import pandas as pd
import pytest

from majority import Bags, InputError

OTHER_ORDER = np.dtype("float32").newbyteorder()


@pytest.mark.parametrize("dtype", [OTHER_ORDER, np.dtype("float64").newbyteorder(), np.longdouble])
def test_dtypes_that_torch_does_not_have_are_errors(dtype):
    store = np.ones((4, 3), dtype)
    if store.dtype == np.float64:
        pytest.skip("a long double is a double here")
    with pytest.raises(InputError, match=rf"dtype {store.dtype}: .* float16, float32 or .*astype\('float32'\)"):
        Bags.from_table(store, ["p", "p", "q", "q"], ["a", "a", "b", "b"])
    assert len(Bags.from_table(store.astype("float32"), ["p", "p", "q", "q"], ["a", "a", "b", "b"])) == 2


def test_a_missing_group_is_an_error():
    with pytest.raises(InputError, match=r"bag p has no group \(row 0\): fill it in, or leave the bag out"):
        Bags.from_table(np.eye(3), ["p", "q", "q"], ["a", "b", "b"], groups=[np.nan, 1, 1])


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


def test_numbers_beyond_the_range_are_errors():
    with pytest.raises(InputError, match=r"bag 1 \(q\), instance 0 holds NaN .*beyond ±1e\+30"):
        Bags.from_table(np.diag([1.0, 1e30, -1e38]), ["p", "p", "q"], ["a", "a", "b"])
