"""Warnings about image files: unlike each other, unlike those of training, or not read completely."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..image_summary import ImageFileSummary
from .findings import Findings
from .read_options import ReadOptions

if TYPE_CHECKING:  # Pillow is imported only to read images
    from .images import ImageFileInfo

MAX_ODD = 0.1  # up to this share of the images is called odd and listed
MAX_LISTED = 3
FEW_LEVELS = 64  # of 256: what remains of a 14-bit camera image that was written as 16 bits
NOT_READ = {  # field of an ImageFileInfo -> what the image has, and the cure
    "pages": ("further pages", "only the first page is used; write the page that you need into its own file"),
    "bands": (
        "bands besides grey or colour, such as alpha or infrared",
        "these are not used; write images of the three bands that distinguish the classes",
    ),
}


def warn_of_changes(
    names: Sequence[str],
    images: Sequence[ImageFileInfo],
    shape: tuple[int, int, int],
    options: ReadOptions,
    findings: Findings,
) -> None:
    """Warn of images unlike those of training; before training, if a few differ from the rest or all are resized."""
    if options.trained_images is not None:
        _warn_of_unlike(names, images, shape, options.trained_images, findings)
    if not options.training:
        return
    new_size = f"{shape[0]}x{shape[1]}"
    cure = "leave out images that do not belong" + ("" if options.image_size else ", or give --image-size")
    odd_size = _warn_of_odd(names, images, _size, f": all become {new_size}; {cure}", findings)
    summary = ImageFileSummary.of(images)
    if not (odd_size or options.image_size or summary.sizes == new_size):
        findings.warn(
            f"the images are resized to {new_size} from {summary.sizes}: choose another size with --image-size"
        )
    _warn_of_odd(names, images, _colour_mode, ": all become colour", findings)


def warn_of_losses(names: Sequence[str], images: Sequence[ImageFileInfo], findings: Findings) -> None:
    """Warn of content of the files that is lost in the pixels."""
    for field, (content, cure) in NOT_READ.items():
        which = [name for name, image in zip(names, images, strict=True) if getattr(image, field)]
        if which:
            findings.warn(f"{len(which)} of {len(images)} images have {content}, e.g. {which[0]}: {cure}")
    lows = [image.lowest for image in images if image.lowest is not None]
    highs = [image.highest for image in images if image.highest is not None]
    if highs:
        lowest, highest = min(lows), max(highs)
        levels = (highest >> 8) - (lowest >> 8) + 1
        if levels <= FEW_LEVELS:
            findings.warn(
                f"{len(highs)} of {len(images)} images have 16 bits, with values from {lowest:,} to {highest:,} of "
                f"65,535: at most {levels} of 256 levels remain; stretch all images to the full range in the same way"
            )


def _size(image: ImageFileInfo) -> str:
    return f"{image.height}x{image.width}"


def _colour_mode(image: ImageFileInfo) -> str:
    return "grey" if image.grey else "colour"


def _warn_of_odd(
    names: Sequence[str],
    images: Sequence[ImageFileInfo],
    kind_of: Callable[[ImageFileInfo], str],
    cure: str,
    findings: Findings,
) -> bool:
    """Warn if a few images are of another kind than the rest; return whether there are such images."""
    kinds = [kind_of(image) for image in images]
    usual, count = Counter(kinds).most_common(1)[0]
    odd = [f"{name} is {kind}" for name, kind in zip(names, kinds, strict=True) if kind != usual]
    if not 0 < len(odd) <= MAX_ODD * len(kinds):
        return False
    more = f" and {len(odd) - MAX_LISTED} more differ" if len(odd) > MAX_LISTED else ""
    findings.warn(f"{count} of {len(kinds)} images are {usual}, but {', '.join(odd[:MAX_LISTED])}{more}{cure}")
    return True


def _warn_of_unlike(
    names: Sequence[str],
    images: Sequence[ImageFileInfo],
    shape: tuple[int, int, int],
    trained: ImageFileSummary,
    findings: Findings,
) -> None:
    unlike = [i for i, image in enumerate(images) if not trained.covers(image)]
    if unlike:
        example = f"{names[unlike[0]]} ({ImageFileSummary.of([images[unlike[0]]])})"
        findings.warn(
            f"{len(unlike)} of {len(images)} images are not like those that the run was trained on ({trained}), "
            f"e.g. {example}: they become {'x'.join(map(str, shape))} and may be classified wrongly"
        )
