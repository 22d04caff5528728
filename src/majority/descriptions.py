"""One line on each backbone, augmentation and recipe of this package, in the order of `majority list`.

They are apart from what they describe, so that `majority list` need not import torch.
"""

from __future__ import annotations

BACKBONES = {
    "mlp": "two hidden layers of 128, for vectors and tiny images",
    "linear": "the head alone, on vectors",
    "tiny": "two 3x3 convolutions and a hidden layer, for tiny images",
    "cnn": "three 3x3 convolutions, for small images on a CPU",
    "cnn-reduced": "cnn on images of 64 pixels per side or more, reduced to 32 to 63: census on a CPU",
    "resnet18": "the paper's network: ResNet-18 for images of any size",
    "resnet18-small": "ResNet-18 with a 3x3 stem and no pooling",
}

AUGMENTATIONS = {
    "flip": "mirror half of the images, left to right",
    "rotate90": "quarter turns",
    "crop": "shifts by up to an eighth of the side",
    "resized-crop": "a random rectangle, resized",
    "cutout": "a square set to the mean of the image",
    "colour": "brightness, contrast and saturation",
    "hue": "a turn of all hues",
    "grey": "a fifth of the images without colour",
    "affine": "small rotations, stretches and shifts",
    "noise": "normal noise on every pixel",
}

DEFAULT_RECIPE = "default"
RECIPES = {
    DEFAULT_RECIPE: "one of these, chosen by the data and the device",
    "quick": "for a CPU: one mlp or cnn, 40 epochs; of vectors, the best of a linear model, a forest and an mlp",
    "paper": "the published protocol: ResNet-18, Adam 3e-4, 64 bags per step, 1,500 epochs",
    "augmented": "small-stem ResNet-18, label-preserving flips and crops, AdamW, cosine schedule, 100 epochs",
    "mpem": (
        "a counting network with the paper's settings, then one per ratio without each bag's least likely instances"
    ),
    "forest": "trees that learn the labels of bags, corrected for how often each class is one: a baseline for vectors",
    "census": (
        "a start without labels or from a linear classifier, teachers, one student trained on their soft labels"
    ),
}
