"""CIFAR-10 in its published binary layout (the pickled version is not read): 60,000 colour images of 32 x 32 pixels."""

from __future__ import annotations

import tarfile

import numpy as np

from .catalogue import COMMON, NamedSource
from .fetch import fetch, find
from .labelled import LabelledSet

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ARCHIVE = "cifar-10-binary.tar.gz"
BATCHES = tuple(
    f"cifar-10-batches-bin/{name}.bin" for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
)
RECORD = 1 + 3 * 32 * 32  # bytes: the label, then all red, all green and all blue values


def load_cifar10() -> LabelledSet:
    if all(map(find, BATCHES)):
        batches = [fetch(batch).read_bytes() for batch in BATCHES]
    else:
        with tarfile.open(fetch(ARCHIVE)) as members:
            files = [members.extractfile(batch) for batch in BATCHES]
            batches = [file.read() for file in files if file is not None]
    records = np.frombuffer(b"".join(batches), np.uint8).reshape(-1, RECORD)
    store = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)  # (60000, 32, 32, 3)
    return LabelledSet("cifar10", np.ascontiguousarray(store), records[:, 0], CLASSES)


SOURCES = [
    NamedSource(
        "cifar10",
        load_cifar10,
        CLASSES,
        instances=60_000,
        shape=(32, 32, 3),
        files=BATCHES,
        archive=ARCHIVE,
        label_preserving=("flip", *COMMON, "grey"),
        mixed_views=True,
    ),
]
