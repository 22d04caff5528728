"""Each augmentation against a plain reference that takes one image at a time, given the same draws."""

import math

import numpy as np
import pytest
import torch

from majority import Bags, InputError, Settings, build_model, fit, register
from majority.training.augment import (
    AUGMENTATIONS,
    Augment,
    Augmentation,
    affine,
    colour,
    cutout,
    flip,
    hue,
    pad_and_crop,
    resized_crop,
    rotate90,
)

SHAPES = [(64, 3, 9, 9), (64, 1, 8, 11)]
both_shapes = pytest.mark.parametrize("shape", SHAPES, ids=["colour", "grey, oblong"])
every_name = pytest.mark.parametrize("name", AUGMENTATIONS)


def seeded(seed=3):
    return torch.Generator().manual_seed(seed)


def images_of(shape, seed=0):
    return torch.rand(shape, generator=seeded(seed))


@both_shapes
def test_flip(shape):
    images = images_of(shape)
    out, draws = flip(images, seeded()), torch.rand(len(images), generator=seeded())
    for image, result, draw in zip(images, out, draws, strict=True):
        assert torch.equal(result, torch.fliplr(image.permute(1, 2, 0)).permute(2, 0, 1) if draw < 0.5 else image)


@both_shapes
def test_rotate90(shape):
    images = images_of(shape)
    square = shape[2] == shape[3]
    turns = torch.randint(4 if square else 2, (len(images),), generator=seeded()) * (1 if square else 2)
    assert len(turns.unique()) == (4 if square else 2)
    for image, result, turn in zip(images, rotate90(images, seeded()), turns.tolist(), strict=True):
        assert torch.equal(result, torch.rot90(image, turn, (1, 2)))


@both_shapes
def test_crop_of_the_padded_image(shape):
    images, pad = images_of(shape), 3
    _, _, height, width = shape
    shifts = torch.randint(-pad, pad + 1, (2, len(images)), generator=seeded()).T.tolist()
    assert {-pad, 0, pad} <= {shift for pair in shifts for shift in pair}
    for image, result, (down, right) in zip(images, pad_and_crop(images, seeded(), pad), shifts, strict=True):
        padded = np.pad(image.numpy(), ((0, 0), (pad, pad), (pad, pad)))
        expected = padded[:, pad + down : pad + down + height, pad + right : pad + right + width]
        np.testing.assert_array_equal(result.numpy(), expected)


@both_shapes
def test_cutout_covers_a_square_with_the_mean(shape):
    images, size = images_of(shape), 4
    out = cutout(images, seeded(), size)
    whole = 0
    for image, result in zip(images, out, strict=True):
        changed = (result != image).any(dim=0)
        rows, columns = changed.any(dim=1).nonzero(), changed.any(dim=0).nonzero()
        extent = [(ends.max() - ends.min() + 1).item() for ends in (rows, columns)]
        assert max(extent) <= size
        assert changed.sum() == extent[0] * extent[1]
        whole += extent == [size, size]
        for channel, filled in zip(image, result[:, changed], strict=True):
            torch.testing.assert_close(filled, channel.mean().expand_as(filled))
    assert 0 < whole < len(images)


def plain_resized_crop(image, area, stretch, across, down):
    """The formula of torchvision's RandomResizedCrop on real-valued rectangles, sampled pixel by pixel."""
    height, width = image.shape[1:]
    part_width, part_height = (min(1, math.sqrt(x)) for x in (area * stretch, area / stretch))
    left, top = width * (1 - part_width) * across, height * (1 - part_height) * down
    out = np.zeros_like(image)
    for i in range(height):
        for j in range(width):
            y = min(max(top + (i + 0.5) * part_height - 0.5, 0), height - 1)
            x = min(max(left + (j + 0.5) * part_width - 0.5, 0), width - 1)
            i0, j0 = int(y), int(x)
            i1, j1 = min(i0 + 1, height - 1), min(j0 + 1, width - 1)
            upper = (1 - x + j0) * image[:, i0, j0] + (x - j0) * image[:, i0, j1]
            lower = (1 - x + j0) * image[:, i1, j0] + (x - j0) * image[:, i1, j1]
            out[:, i, j] = (1 - y + i0) * upper + (y - i0) * lower
    return out


@both_shapes
def test_resized_crop(shape):
    images = images_of(shape)[:12]
    out = resized_crop(images, seeded(), scale=(0.1, 1.0)).numpy()
    draws = torch.rand(4, len(images), generator=seeded()).T.tolist()
    for image, result, (area, stretch, across, down) in zip(images.numpy(), out, draws, strict=True):
        area, stretch = 0.1 + 0.9 * area, 0.75 * (4 / 3 / 0.75) ** stretch
        np.testing.assert_allclose(result, plain_resized_crop(image, area, stretch, across, down), atol=1e-5)


def plain_colour(image, brightness, contrast, saturation):
    def grey(x):
        return 0.299 * x[0] + 0.587 * x[1] + 0.114 * x[2] if len(x) == 3 else x[0]

    image = np.clip(image * brightness, 0, 1)
    mean = grey(image).mean()
    image = np.clip(contrast * image + (1 - contrast) * mean, 0, 1)
    return np.clip(saturation * image + (1 - saturation) * grey(image), 0, 1) if len(image) == 3 else image


@both_shapes
def test_colour(shape):
    images, strength = images_of(shape), 1.5
    factors = (1 + strength * (2 * torch.rand(3, len(images), generator=seeded()) - 1)).clamp(min=0).T.tolist()
    for image, result, three in zip(images.numpy(), colour(images, seeded(), strength).numpy(), factors, strict=True):
        np.testing.assert_allclose(result, plain_colour(image, *three), atol=1e-6)


def plain_hue(image, angle):
    """Pixel by pixel: to YIQ, turn the two colour differences, back."""
    to_yiq = np.array([[0.299, 0.587, 0.114], [0.5959, -0.2746, -0.3213], [0.2115, -0.5227, 0.3112]])
    turned = np.empty_like(image)
    for row in range(image.shape[1]):
        for column in range(image.shape[2]):
            y, i, q = to_yiq @ image[:, row, column]
            i, q = i * math.cos(angle) - q * math.sin(angle), i * math.sin(angle) + q * math.cos(angle)
            turned[:, row, column] = np.linalg.solve(to_yiq, [y, i, q])
    return np.clip(turned, 0, 1)


def test_hue():
    images = images_of((16, 3, 5, 4))
    draws = torch.rand(2, len(images), generator=seeded()).tolist()
    for image, result, draw, chosen in zip(
        images.numpy(), hue(images, seeded(), 0.2, 0.6).numpy(), *draws, strict=True
    ):
        angle = 2 * math.pi * 0.2 * (2 * draw - 1) if chosen < 0.6 else 0
        np.testing.assert_allclose(result, plain_hue(image, angle), atol=1e-5)


def plain_affine(image, angle, across, down, right, below):
    """Pixel by pixel: where each output pixel lies in the input, from the centre, in pixels; bilinear, border kept."""
    height, width = image.shape[1:]
    out = np.empty_like(image)
    for row in range(height):
        for column in range(width):
            x, y = (column + 0.5 - width / 2) * across, (row + 0.5 - height / 2) * down
            source_x = math.cos(angle) * x - math.sin(angle) * y + right * width + width / 2 - 0.5
            source_y = math.sin(angle) * x + math.cos(angle) * y + below * height + height / 2 - 0.5
            source_x, source_y = min(max(source_x, 0), width - 1), min(max(source_y, 0), height - 1)
            left, top = min(int(source_x), width - 2), min(int(source_y), height - 2)
            a, b = source_x - left, source_y - top
            upper = (1 - a) * image[:, top, left] + a * image[:, top, left + 1]
            lower = (1 - a) * image[:, top + 1, left] + a * image[:, top + 1, left + 1]
            out[:, row, column] = (1 - b) * upper + b * lower
    return out


@both_shapes
def test_affine(shape):
    images = images_of((8, *shape[1:]))
    draws = (2 * torch.rand(5, 8, generator=seeded()) - 1).T.tolist()
    turned = affine(images, seeded(), turn=30, scale=0.2, shift=0.1)
    for image, result, (angle, across, down, right, below) in zip(images.numpy(), turned.numpy(), draws, strict=True):
        given = math.radians(30 * angle), 1 + 0.2 * across, 1 + 0.2 * down, 0.1 * right, 0.1 * below
        np.testing.assert_allclose(result, plain_affine(image, *given), atol=1e-4)


# ---------------------------------------------------------------- all of them


@every_name
@both_shapes
def test_images_stay_images(name, shape):
    images = images_of(shape)
    before = images.clone()
    out = AUGMENTATIONS[name].function(images, seeded())
    assert out.shape == images.shape
    assert out.dtype == images.dtype
    assert 0 <= out.min() <= out.max() <= 1
    assert torch.equal(images, before)
    assert torch.equal(out, images) == (name in ("hue", "grey") and shape[1] == 1), "grey images have no colour"


@every_name
def test_the_seed_decides_and_the_global_generator_is_not_used(name):
    images, state = images_of(SHAPES[0]), torch.get_rng_state()
    once, again, other = (AUGMENTATIONS[name].function(images, seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(once, again)
    assert not torch.equal(once, other)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.usefixtures("gpu")
@every_name
def test_no_augmentation_waits_for_the_device(name):
    images, generator = torch.rand(16, 3, 32, 32, device="cuda"), torch.Generator("cuda").manual_seed(0)
    AUGMENTATIONS[name].function(images, generator)
    torch.cuda.set_sync_debug_mode("error")
    try:
        out = AUGMENTATIONS[name].function(images, generator)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert out.isfinite().all()


# ---------------------------------------------------------------- composition


def test_unknown_names_and_settings_are_refused():
    with pytest.raises(InputError, match=r"no augmentation 'blur'.* one of flip, rotate90"):
        Augment(("flip", "blur"))
    with pytest.raises(InputError, match=r"augmentation crop cannot take .*'size'.*; its settings are pad=None"):
        Augment((("crop", {"size": 3}),))


# ---------------------------------------------------------------- custom augmentations


def image_bags():
    rng = np.random.default_rng(0)
    store = rng.integers(0, 255, (40, 8, 8, 1), dtype=np.uint8)
    return Bags(store, np.arange(40), np.arange(0, 41, 5), [0, 1] * 4, ["a", "b"])


def losses_with(augment):
    bags = image_bags()
    settings = Settings(epochs=2, augment=augment)
    fitted = fit(build_model(bags, "log-mean", "mlp"), bags, bags, settings, device="cpu", title=None)
    return [record["train_loss"] for record in fitted.history]


def test_a_registered_augmentation_is_used_in_training(registries):
    calls = []

    def invert(images, generator, share=0.5):
        calls.append((images.shape, share))
        chosen = torch.rand(len(images), 1, 1, 1, generator=generator) < share
        return torch.where(chosen, 1 - images, images)

    register(Augmentation("invert", invert, "negatives of half of the images"))
    plain, inverted = losses_with(()), losses_with(("invert",))
    assert (torch.Size([40, 1, 8, 8]), 0.5) in calls
    assert inverted != plain
    assert inverted == losses_with(("invert",)), "the same seed gives the same draws"
    assert losses_with((("invert", {"share": 0.0}),)) == plain
