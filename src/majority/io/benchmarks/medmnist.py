"""The two-dimensional MedMNIST sets (28 x 28 pixels) with one label per image."""

from __future__ import annotations

from functools import partial

from .catalogue import COMMON, NamedSource
from .fetch import fetch
from .labelled import LabelledSet
from .labelled_files import load_npz

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
RETINA_LAYERS = ("CNV", "DME", "drusen", "normal")
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
RETINOPATHY_GRADES = ("0", "1", "2", "3", "4")  # an ordinal scale, used as classes
CHEST = ("normal", "pneumonia")
BREAST = ("malignant", "normal, benign")
ANY_WAY = ("flip", "rotate90")  # under a microscope, and of skin: no orientation
MIRRORED = ("flip",)  # a mirrored left eye is a right eye, and ultrasound comes from above
UPRIGHT = ()  # left and right kidney, lung and femur are classes, and the heart is on the left


def load_medmnist(name: str, classes: tuple[str, ...]) -> LabelledSet:
    return load_npz(fetch(f"{name}.npz"), name, classes)


def _source(
    name: str,
    classes: tuple[str, ...],
    channels: int,
    train: int,
    test: int,
    turns: tuple[str, ...],
    licence: str = "CC BY 4.0",
) -> NamedSource:
    return NamedSource(
        name,
        partial(load_medmnist, name, classes),
        classes,
        instances=train + test,
        shape=(28, 28, channels),
        licence=licence,
        files=(f"{name}.npz",),
        label_preserving=(*turns, *COMMON),
    )


LEFT_OUT = {"chestmnist": "its images have several labels each, so a bag of them has no majority class"}
SOURCES = [
    _source("pathmnist", COLON, channels=3, train=89_996, test=7_180, turns=ANY_WAY),
    _source("octmnist", RETINA_LAYERS, channels=1, train=97_477, test=1_000, turns=MIRRORED),
    _source("dermamnist", SKIN, channels=3, train=7_007, test=2_005, turns=ANY_WAY, licence="CC BY-NC 4.0"),
    _source("bloodmnist", BLOOD, channels=3, train=11_959, test=3_421, turns=ANY_WAY),
    _source("tissuemnist", KIDNEY, channels=1, train=165_466, test=47_280, turns=ANY_WAY),
    _source("organamnist", ORGANS, channels=1, train=34_561, test=17_778, turns=UPRIGHT),
    _source("organcmnist", ORGANS, channels=1, train=12_975, test=8_216, turns=UPRIGHT),
    _source("organsmnist", ORGANS, channels=1, train=13_932, test=8_827, turns=UPRIGHT),
    _source("retinamnist", RETINOPATHY_GRADES, channels=3, train=1_080, test=400, turns=MIRRORED),
    _source("pneumoniamnist", CHEST, channels=1, train=4_708, test=624, turns=UPRIGHT),
    _source("breastmnist", BREAST, channels=1, train=546, test=156, turns=MIRRORED),
]
