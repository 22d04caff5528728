"""What images lose on the way to eight bits, one page and three bands: it is refused or said, never silent."""

import numpy as np
from PIL import Image

from majority import load_source


def save(table, folder):
    table.to_csv(folder / "bags.csv", index=False)
    return folder / "bags.csv"


def rewritten(folder, table, suffix, write):
    """The manifest of the same images under another ending, each as `write(path, grey pixels)` puts it."""
    for name in table["path"]:
        pixels = np.asarray(Image.open(folder / name).convert("L"))
        write((folder / name).with_suffix(suffix), pixels)
    return save(table.assign(path=table["path"].str.replace(".png", suffix)), folder)


def test_integers_of_32_bits_have_no_fixed_range(tmp_path, majority, make):
    write = lambda path, pixels: Image.fromarray(pixels.astype(np.int32)).save(path)
    place = rewritten(tmp_path, make.images(tmp_path), ".tif", write)
    code, out, _ = majority("check", place)
    assert code == 1
    what = "0-0.tif: it holds 32-bit pixels, which have no fixed range (save it with 8 or 16 bits): mend it"
    assert what in out


def test_signed_integers_of_16_bits_are_read(tmp_path, make):
    """Pillow opens them as it opens those of 32 bits, and so do old versions of it every 16-bit PNG."""
    deep = lambda path, pixels: Image.fromarray(pixels.astype(np.uint16) << 7).save(path, tiffinfo={339: 2})
    place = rewritten(tmp_path, make.images(tmp_path, bags=4), ".tif", deep)
    assert Image.open(tmp_path / "images/0-0.tif").mode == "I"
    source = load_source(place)
    expected = np.asarray(Image.open(tmp_path / "images/0-0.png").convert("L")) >> 1
    assert np.array_equal(source.bags.store[list(source.paths).index("images/0-0.tif"), :, :, 0], expected)
