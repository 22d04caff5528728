"""`majority embed`: the images of a source as a folder of feature files, which `majority train` takes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..data.bags import Bags
from ..data.device import instances_per_pass
from ..errors import InputError, count_noun
from ..files import file_names, hold_lock, user_path, write_atomically, write_error, write_text
from ..log import Log, no_log
from . import is_custom_source
from .custom import ColumnNames, CustomBags, ReadOptions
from .custom.folders import INSTANCES, LABELS
from .custom.images import ImageFiles, with_progress
from .custom.load import load_custom
from .embedding import read_embedding, write_embedding
from .encoders.encoder import Network
from .encoders.network import open_network


def embed(
    source: str | Path,
    model: str | Path,
    out: str | Path,
    *,
    weights: str | Path | None = None,
    image_size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    bag_column: str | None = None,
    label_column: str | None = None,
    path_column: str | None = None,
    device: str = "auto",
    log: Log = no_log,
) -> Path:
    """Write the features of every image of a manifest or folder: one .npy file per bag, and tables beside them.

    `model` is an ONNX file, timm:NAME, or a registered `Encoder`. If the process is killed, the same call continues
    with the bags that are missing. Returns the folder.

    Args:
        source: A manifest of images, or a folder with one folder per bag.
        model: What turns images into features.
        out: The folder that is written.
        weights: A file with the weights of a timm network or an encoder (default: those it comes with).
        image_size: Pixels per side (default: what the model takes).
        mean: Per channel, subtracted from pixels between 0 and 1 (default: the model's).
        std: Per channel, divides them (default: the model's).
        bag_column: Names the bag (default: bag).
        label_column: Has the label of the bag (default: bag_label).
        path_column: Names the image (default: path).
        device: auto, cpu, cuda, cuda:N or mps.
        log: Called with each line of progress.

    >>> from tempfile import TemporaryDirectory
    >>> from PIL import Image
    >>> from torch import nn
    >>> from majority import register
    >>> from majority.io.encoders import Encoder
    >>> _ = register(Encoder("pixels", nn.Flatten, "the pixels themselves", image_size=4))
    >>> with TemporaryDirectory() as folder:
    ...     bag = Path(folder) / "images/oak"
    ...     bag.mkdir(parents=True)
    ...     Image.new("RGB", (4, 4), "green").save(bag / "0.png")
    ...     sorted(path.name for path in embed(bag.parent, "pixels", Path(folder) / "features").iterdir())
    ['embedding.json', 'instances.csv', 'oak.npy']
    """
    if not is_custom_source(source):
        raise InputError(f"{source} is not bags of your own: give a table with a column path, or a folder of images")
    network = open_network(model, weights, image_size=image_size, mean=mean, std=std, device=device)
    names = ColumnNames(bag_column, label_column, path_column)
    shape = network.embedding.image_shape
    opened = load_custom(
        user_path(source), ReadOptions(unlabelled=True, training=False, names=names, encoder_shape=shape)
    )
    if not isinstance(opened.bags.store, ImageFiles):
        raise InputError(f"{source} contains vectors, and only images can be embedded: give a table with a column path")
    for warning in opened.warnings_for(None):
        log(f"warning: {warning}")
    out, files = Path(out), file_names(opened.bags.bag_names(), "rename it, with letters, digits, - and _")
    try:
        out.mkdir(parents=True, exist_ok=True)
        with hold_lock(out / ".lock"):
            _fill_folder(out, opened, files, network, log)
    except BlockingIOError:
        raise InputError(f"another command is working in {out}: wait for it or choose another folder") from None
    except OSError as error:
        raise write_error(out, error) from None
    return out


def embed_bags(bags: Bags, network: Network) -> Bags:
    """The same bags with the features of their images, in memory."""
    used, index = np.unique(bags.index, return_inverse=True)
    batches = _batches(used, network)
    features = [network(bags.store[batch]) for batch in with_progress(batches, "embedding images")]
    return bags._with(store=np.concatenate(features), index=index)


def _batches(rows: np.ndarray, network: Network) -> list[np.ndarray]:
    step = instances_per_pass(network.embedding.image_shape, network.on_gpu)
    return np.split(rows, range(step, len(rows), step))


def _fill_folder(out: Path, opened: CustomBags, names: list[str], network: Network, log: Log) -> None:
    bags, images, files = opened.bags, _hash_images(opened), [out / f"{name}.npy" for name in names]
    before = read_embedding(out)
    if before is None:
        foreign = [path.name for path in out.iterdir() if not path.name.startswith(".")]
        if foreign:
            what = f"{out} holds {foreign[0]}, which was not written by `majority embed`"
            raise InputError(f"{what}: choose another --out")
        write_embedding(out, network.embedding, images, complete=False)
    else:
        changed = before.embedding.differences(network.embedding)
        if changed or before.images != images:
            what = f"another model ({changed})" if changed else "other images"
            raise InputError(f"{out} holds features of {what}: choose another --out")
        if before.complete:
            log(f"{out} is finished: {count_noun(len(bags), 'bag')}")
            return
        done = sum(file.exists() for file in files)
        log(f"{out} was interrupted: {done:,} of {count_noun(len(bags), 'bag')} are done")
    groups = [group for group in _groups(bags, network) if not all(files[number].exists() for number in group)]
    for group in with_progress(groups, "embedding bags"):
        rows_of_group = bags.index[bags.positions(np.array(group))]
        features = np.concatenate([network(bags.store[batch]) for batch in _batches(rows_of_group, network)])
        for number, rows in zip(group, np.split(features, np.cumsum(bags.sizes[group])[:-1]), strict=True):
            if not files[number].exists():
                _write_npy(files[number], rows)
    _write_tables(out, opened, names)
    write_embedding(out, network.embedding, images, complete=True)


def _groups(bags: Bags, network: Network) -> Iterator[list[int]]:
    """Bags that are embedded together: as many as give one full batch.

    They do not depend on what is done already: the last bits of a feature may depend on its batch.
    """
    group, enough = [], instances_per_pass(network.embedding.image_shape, network.on_gpu)
    for number in range(len(bags)):
        group.append(number)
        if bags.sizes[group].sum() >= enough or number == len(bags) - 1:
            yield group
            group = []


def _write_npy(path: Path, rows: np.ndarray) -> None:
    def write(draft: Path) -> None:
        with draft.open("wb") as file:
            np.save(file, rows, allow_pickle=False)

    write_atomically(path, write)


def _write_tables(out: Path, opened: CustomBags, names: list[str]) -> None:
    """labels.csv, if the bags have labels, and instances.csv."""
    bags, paths = opened.bags, opened.paths
    assert paths is not None
    if bags.labelled:
        second = None if bags.bag_labels.runner_up is None else bags.bag_labels.second_texts(bags.classes)
        labels = {"bag": names, "label": bags.bag_labels.texts(bags.classes), "second_label": second}
        _write_csv(out / LABELS, labels | {"split": opened.split, "group": bags.groups})
    x, y = (None, None) if bags.coordinates is None else bags.coordinates.T
    classes = np.array([*bags.true_classes, ""], object)  # the last: UNKNOWN
    columns: dict[str, Any] = {"bag": np.repeat(names, bags.sizes), "path": paths[bags.index]}
    columns["label"] = None if bags.instance_labels is None else classes[bags.instance_labels]
    _write_csv(out / INSTANCES, columns | {"x": x, "y": y, "weight": bags.weights})


def _write_csv(path: Path, columns: dict[str, Any]) -> None:
    """The columns that there are."""
    given = {name: values for name, values in columns.items() if values is not None}
    write_text(path, pd.DataFrame(given).to_csv(index=False, lineterminator="\n"))


def _hash_images(opened: CustomBags) -> str:
    """Of the bags, and of the paths, sizes and times of their images: the same for the same source."""
    bags, paths = opened.bags, opened.paths
    assert paths is not None
    assert isinstance(bags.store, ImageFiles)
    states = [(state.st_size, state.st_mtime_ns) for state in map(os.stat, bags.store.paths)]
    content = bags.bag_names(), bags.sizes.tolist(), bags.index.tolist(), paths.tolist(), states
    return hashlib.sha256(repr(content).encode()).hexdigest()
