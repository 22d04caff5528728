"""Our named sources: digits, CIFAR-10, SVHN, and the two-dimensional MedMNIST sets with one label per image."""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...registry import register
from .catalogue import NamedSource
from .labelled import LabelledSet
from .published import CIFAR_BATCHES, fetch, find
from .readers import assemble, load_npz, read_mat

OurSource = Literal[  # for type checkers: `load` gives a labelled set for these names
    "digits",
    "cifar10",
    "svhn",
    "pathmnist",
    "octmnist",
    "dermamnist",
    "bloodmnist",
    "tissuemnist",
    "organamnist",
    "organcmnist",
    "organsmnist",
    "retinamnist",
    "pneumoniamnist",
    "breastmnist",
]
COMMON = ("crop", "resized-crop", "cutout", "colour", "hue", "affine", "noise")  # augmentations for all our sources
DIGITS = tuple("0123456789")
ARCHIVE = "cifar-10-binary.tar.gz"
BATCHES = tuple(f"cifar-10-batches-bin/{name}.bin" for name in CIFAR_BATCHES)
THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def load_digits() -> LabelledSet:
    """The handwritten digits of scikit-learn: 1,797 grey images of 8 x 8 pixels, without a download."""
    from sklearn import datasets

    embedded = datasets.load_digits()
    store = np.round(embedded.images * (255 / 16)).astype(np.uint8)[..., None]  # (1797, 8, 8, 1), was 0..16
    return LabelledSet("digits", store, embedded.target, DIGITS, stratified=True, bags=200, bag_size=32)


def load_cifar10() -> LabelledSet:
    """CIFAR-10 in its published binary layout (the pickled version is not read)."""
    if all(map(find, BATCHES)):
        batches = [fetch(batch).read_bytes() for batch in BATCHES]
    else:
        with tarfile.open(fetch(ARCHIVE)) as members:
            files = [members.extractfile(batch) for batch in BATCHES]
            batches = [file.read() for file in files if file is not None]
    # A record is the label, then all red, all green and all blue values.
    records = np.frombuffer(b"".join(batches), np.uint8).reshape(-1, 1 + 3 * 32 * 32)
    store = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)  # (60000, 32, 32, 3)
    return LabelledSet("cifar10", np.ascontiguousarray(store), records[:, 0], THINGS)


def load_svhn() -> LabelledSet:
    train, test = (read_mat(fetch(f"{split}_32x32.mat"), split) for split in ("train", "test"))
    return assemble(Path("svhn"), train | test, "svhn", DIGITS)


def load_medmnist(name: str, classes: tuple[str, ...]) -> LabelledSet:
    return load_npz(fetch(f"{name}.npz"), name, classes)


def _register(
    name: str, load: Any, classes: Sequence[str], side: int, channels: int, instances: int, **more: Any
) -> None:
    register(NamedSource(name, load, tuple(classes), instances, (side, side, channels), **more))


def _register_medmnist(
    name: str, classes: Sequence[str], channels: int, instances: int, turns: Sequence[str], licence: str = "CC BY 4.0"
) -> None:
    load, files, kept = partial(load_medmnist, name, tuple(classes)), (f"{name}.npz",), (*turns, *COMMON)
    _register(name, load, classes, 28, channels, instances, licence=licence, files=files, label_preserving=kept)


_register(
    "digits",
    load_digits,
    DIGITS,
    side=8,
    channels=1,
    instances=1797,
    licence="CC BY 4.0",
    location="inside scikit-learn",
    label_preserving=COMMON,
)
_register(
    "cifar10",
    load_cifar10,
    THINGS,
    side=32,
    channels=3,
    instances=60_000,
    files=BATCHES,
    archive=ARCHIVE,
    label_preserving=("flip", *COMMON, "grey"),
    mixed_views=True,
)
_register(
    "svhn",
    load_svhn,
    DIGITS,
    side=32,
    channels=3,
    instances=99_289,
    licence="non-commercial use",
    files=("train_32x32.mat", "test_32x32.mat"),
    label_preserving=(*COMMON, "grey"),  # a mirrored or rotated digit is another character
)

COLON = (
    "adipose",
    "background",
    "debris",
    "lymphocytes",
    "mucus",
    "smooth muscle",
    "normal colon mucosa",
    "cancer-associated stroma",
    "colorectal adenocarcinoma epithelium",
)
SKIN = (
    "actinic keratoses and intraepithelial carcinoma",
    "basal cell carcinoma",
    "benign keratosis-like lesions",
    "dermatofibroma",
    "melanoma",
    "melanocytic nevi",
    "vascular lesions",
)
BLOOD = (
    "basophil",
    "eosinophil",
    "erythroblast",
    "immature granulocytes",
    "lymphocyte",
    "monocyte",
    "neutrophil",
    "platelet",
)
KIDNEY = (
    "collecting duct, connecting tubule",
    "distal convoluted tubule",
    "glomerular endothelial cells",
    "interstitial endothelial cells",
    "leukocytes",
    "podocytes",
    "proximal tubule segments",
    "thick ascending limb",
)
ORGANS = (
    "bladder",
    "femur-left",
    "femur-right",
    "heart",
    "kidney-left",
    "kidney-right",
    "liver",
    "lung-left",
    "lung-right",
    "pancreas",
    "spleen",
)
ANY_WAY = ("flip", "rotate90")  # under a microscope, and of skin: no orientation
MIRRORED = ("flip",)  # a mirrored left eye is a right eye, and ultrasound comes from above
UPRIGHT = ()  # left and right kidney, lung and femur are classes, and the heart is on the left

_register_medmnist("pathmnist", COLON, 3, 97_176, ANY_WAY)
_register_medmnist("octmnist", ("CNV", "DME", "drusen", "normal"), 1, 98_477, MIRRORED)
_register_medmnist("dermamnist", SKIN, 3, 9_012, ANY_WAY, "CC BY-NC 4.0")
_register_medmnist("bloodmnist", BLOOD, 3, 15_380, ANY_WAY)
_register_medmnist("tissuemnist", KIDNEY, 1, 212_746, ANY_WAY)
_register_medmnist("organamnist", ORGANS, 1, 52_339, UPRIGHT)
_register_medmnist("organcmnist", ORGANS, 1, 21_191, UPRIGHT)
_register_medmnist("organsmnist", ORGANS, 1, 22_759, UPRIGHT)
_register_medmnist("retinamnist", "01234", 3, 1_480, MIRRORED)  # an ordinal scale, used as classes
_register_medmnist("pneumoniamnist", ("normal", "pneumonia"), 1, 5_332, UPRIGHT)
_register_medmnist("breastmnist", ("malignant", "normal, benign"), 1, 702, MIRRORED)
