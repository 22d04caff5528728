"""SVHN's cropped digits."""

from __future__ import annotations

import numpy as np

from .catalogue import COMMON, NamedSource
from .fetch import fetch
from .labelled import LabelledSet
from .labelled_files import read_mat

CLASSES = tuple("0123456789")
FILES = ("train_32x32.mat", "test_32x32.mat")


def load_svhn() -> LabelledSet:
    images, digits = zip(*(read_mat(fetch(name)) for name in FILES), strict=True)
    return LabelledSet("svhn", np.concatenate(images), np.concatenate(digits), CLASSES)


SOURCES = [
    NamedSource(
        "svhn",
        load_svhn,
        CLASSES,
        instances=99_289,
        shape=(32, 32, 3),
        licence="non-commercial use",
        files=FILES,
        label_preserving=(*COMMON, "grey"),  # a mirrored or rotated digit is another character
    ),
]
