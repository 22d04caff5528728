"""Warnings about image files: unlike each other, unlike those of training, or read only in part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ..image_summary import ImageFileSummary
from .findings import Findings
from .images import Picture
from .request import ReadOptions

FEW = 0.1  # up to this share of the images is odd, and named
NAMED = 3
FEW_LEVELS = 64  # of 256: what is left of a 14-bit camera that is written as 16 bits
UNREAD = {  # of a picture: what it has, and what is to be done
    "pages": ("further pages", "the first alone is used; write the one that is meant as a file of its own"),
    "bands": (
        "bands beside grey or colour, as alpha or infrared",
        "these are not used; write images of the three bands that tell the classes",
    ),
}


def warn_of_changes(
    names: Sequence[str],
    pictures: Sequence[Picture],
    shape: tuple[int, int, int],
    wish: ReadOptions,
    findings: Findings,
) -> None:
    """Images unlike those that a run was trained on; before training, a few unlike the rest, or all resized."""
    if wish.seen is not None:
        _warn_of_unlike(names, pictures, shape, wish.seen, findings)
    if not wish.training:
        return
    size, made = lambda picture: f"{picture.height}x{picture.width}", f"{shape[0]}x{shape[1]}"
    cure = "leave out what does not belong" + ("" if wish.image_size else ", or give --image-size")
    odd_size = _warn_of_odd(names, pictures, size, f": all become {made}; {cure}", findings)
    originals = ImageFileSummary.of(pictures)
    if not (odd_size or wish.image_size or originals.sizes == made):
        findings.warn(f"the images are resized to {made} from {originals.sizes}: choose another size with --image-size")
    colour = lambda picture: "grey" if picture.grey else "colour"
    _warn_of_odd(names, pictures, colour, ": all become colour", findings)


def warn_of_losses(names: Sequence[str], pictures: Sequence[Picture], findings: Findings) -> None:
    """What the pixels that are used do not hold of the files."""
    for fact, (have, end) in UNREAD.items():
        which = [name for name, picture in zip(names, pictures, strict=True) if getattr(picture, fact)]
        if which:
            findings.warn(f"{len(which)} of {len(pictures)} images have {have}, e.g. {which[0]}: {end}")
    deep = [picture for picture in pictures if picture.highest is not None]
    if deep:
        lowest, highest = min(picture.lowest for picture in deep), max(picture.highest for picture in deep)
        levels = (highest >> 8) - (lowest >> 8) + 1
        if levels <= FEW_LEVELS:
            findings.warn(
                f"{len(deep)} of {len(pictures)} images have 16 bits, with values within {lowest:,} to {highest:,} of "
                f"65,535: at most {levels} of 256 levels are left of them; stretch all alike to the whole range first"
            )


def _warn_of_odd(
    names: Sequence[str], pictures: Sequence[Picture], kind: Callable[[Picture], str], end: str, findings: Findings
) -> bool:
    """Whether a few were of another kind than the rest."""
    kinds = [kind(picture) for picture in pictures]
    usual, count = Counter(kinds).most_common(1)[0]
    odd = [f"{name} is {of}" for name, of in zip(names, kinds, strict=True) if of != usual]
    if not 0 < len(odd) <= FEW * len(kinds):
        return False
    more = f" and {len(odd) - NAMED} more are not" if len(odd) > NAMED else ""
    findings.warn(f"{count} of {len(kinds)} images are {usual}, but {', '.join(odd[:NAMED])}{more}{end}")
    return True


def _warn_of_unlike(
    names: Sequence[str],
    pictures: Sequence[Picture],
    shape: tuple[int, int, int],
    seen: ImageFileSummary,
    findings: Findings,
) -> None:
    unlike = [i for i, picture in enumerate(pictures) if not seen.covers(picture)]
    if unlike:
        example = f"{names[unlike[0]]} ({ImageFileSummary.of([pictures[unlike[0]]])})"
        findings.warn(
            f"{len(unlike)} of {len(pictures)} images are not like those that the run was trained on ({seen}), "
            f"e.g. {example}: they become {'x'.join(map(str, shape))} and may be classified wrongly"
        )
