"""CIFAR-10 in its published binary layout (the pickled version is not read): 60,000 colour images of 32 x 32 pixels."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from pathlib import Path

import numpy as np

from ...errors import InputError
from ...files import cache_folder
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
    if not all(find(batch) for batch in BATCHES):
        _unpack(fetch(ARCHIVE), cache_folder())
    records = np.concatenate([np.fromfile(fetch(batch), np.uint8) for batch in BATCHES]).reshape(-1, RECORD)
    store = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)  # (60000, 32, 32, 3)
    return LabelledSet("cifar10", np.ascontiguousarray(store), records[:, 0], CLASSES)


def _unpack(archive: Path, folder: Path) -> None:
    """Write the six batches into a folder, and nothing else that the archive may contain."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(dir=folder, prefix=".cifar-10-") as unfinished,
            tarfile.open(archive) as members,
        ):
            for member in members:
                content = members.extractfile(member) if member.name in BATCHES and member.isfile() else None
                if content is not None:
                    with open(Path(unfinished) / Path(member.name).name, "wb") as target:
                        shutil.copyfileobj(content, target)
            for batch in BATCHES:
                (folder / batch).parent.mkdir(exist_ok=True)
                (Path(unfinished) / Path(batch).name).replace(folder / batch)
    except (OSError, tarfile.TarError, EOFError) as error:
        raise InputError(
            f"{archive} could not be unpacked into {folder} ({error}): "
            "free disk space there, or unpack the archive by hand into the MAJORITY_DATA folder"
        ) from error


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
