"""The handwritten digits of scikit-learn: 1,797 grey images of 8 x 8 pixels, without a download."""

from __future__ import annotations

import numpy as np

from .catalogue import COMMON, NamedSource
from .labelled import LabelledSet

CLASSES = tuple("0123456789")


def load_digits() -> LabelledSet:
    from sklearn import datasets

    embedded = datasets.load_digits()
    store = np.round(embedded.images * (255 / 16)).astype(np.uint8)[..., None]  # (1797, 8, 8, 1), was 0..16
    return LabelledSet("digits", store, embedded.target, CLASSES, stratified=True, bags=200, bag_size=32)


SOURCES = [
    NamedSource(
        "digits",
        load_digits,
        CLASSES,
        instances=1797,
        shape=(8, 8, 1),
        licence="CC BY 4.0",
        location="inside scikit-learn",
        label_preserving=COMMON,
    ),
]
