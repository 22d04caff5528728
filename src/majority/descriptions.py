"""One line on each method, backbone, augmentation and recipe of this package, in the order of `majority list`.

They are apart from what they describe, so that `majority list` need not import torch.
"""

from __future__ import annotations

METHODS = {
    "count": "the counting network: nearly one-hot instances, counted, nearly one-hot winner",
    "soft-count": "the paper's 'w/o Count': confidences summed, nearly one-hot winner",
    "count-only": "the paper's 'w/o Max class': counted; the proportions are the prediction",
    "log-mean": "log of the mean confidence: a mixture likelihood",
    "adjusted-mean": "log-mean, corrected by how often each class is a label",
    "output-mean": "the paper's Output+Mean: softmax of the mean confidence, then softmax again",
    "feature-mean": "one classifier on the mean feature and on each",
    "feature-max": "one classifier on the maximal feature and on each",
    "feature-pnorm": "one classifier on the features' 4-norm and on each",
    "feature-lse": "one classifier on log-sum-exp of the features and on each",
    "attention": "one classifier on the attention-weighted feature and on each",
    "additive": "sum of the attended instances' logits; classifies instances only within their bag",
    "additive-transmil": "a transformer over the bag, logits summed; classifies instances only within their bag",
    "vote": "instances cast random votes by their confidences; the label must win",
    "naive": "every instance gets the label of its bag",
    "proportion": "reference method: sees the true proportions of each bag",
    "supervised": "reference method: sees the true label of every instance",
}

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
    "quick": "for a CPU: mlp (vectors, tiny images) or cnn, AdamW, cosine schedule, 40 epochs",
    "paper": "the published protocol: ResNet-18, Adam 3e-4, 64 bags per step, 1,500 epochs",
    "augmented": "small-stem ResNet-18, label-preserving flips and crops, AdamW, cosine schedule, 100 epochs",
    "mpem": (
        "a counting network with the paper's settings, then one per ratio without each bag's least likely instances"
    ),
    "census": (
        "a start without labels or from a linear classifier, teachers, one student trained on their soft labels"
    ),
}
