"""What images lose on the way to eight bits, one page and three bands: it is refused or said, never silent."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from majority import InputError, load_source, read_image
from majority.sources.custom import images as images_room


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


def sixteen_bit_colour(path, pixels):
    """A PNG as Pillow cannot write it, of one value in all three channels."""
    height, width = pixels.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in np.repeat(pixels[..., None], 3, axis=2))
    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    written = (struct.pack(">I", len(of)) + name + of + struct.pack(">I", zlib.crc32(name + of)) for name, of in chunks)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(written))


def test_16_bit_images_of_a_small_range_are_warned_of_and_not_decoded_for_it_again(
    tmp_path, majority, make, monkeypatch
):
    reflectance = lambda path, pixels: Image.fromarray((300 + 19 * np.arange(64).reshape(8, 8)).astype(np.uint16)).save(
        path
    )
    place, run = rewritten(tmp_path, make.images(tmp_path, bags=20), ".tif", reflectance), tmp_path / "run"
    said = "warning: 60 of 60 images have 16 bits, with values within 300 to 1,497 of 65,535"
    for words in (
        ["check", place],
        ["train", place, "--recipe", "quick", "--epochs", 1, "--device", "cpu", "--out", run],
        ["predict", run, place, "--out", tmp_path / "p.csv"],
    ):
        code, out, _ = majority(*words)
        assert code == 0
        assert f"{said}: at most 5 of 256 levels are left of them; stretch all alike to the whole range first" in out
        monkeypatch.setattr(images_room, "decoded", lambda *of: pytest.fail("a file was decoded again"))


def test_16_bit_images_in_colour_and_under_two_spellings(tmp_path, majority, make):
    table = make.images(tmp_path, bags=20)
    rewritten(tmp_path, table, ".tif", lambda path, pixels: sixteen_bit_colour(path, pixels.astype(np.uint16) * 16))
    table.loc[0, "path"], table.loc[1, "path"] = "images/0-0.tif", "./images/0-0.tif"
    table.loc[1, "bag"] = "b2"
    _, out, _ = majority("check", save(table, tmp_path))
    assert "warning: 2 of 60 images have 16 bits, with values within " in out


def test_16_bit_images_of_the_whole_range_need_no_word(tmp_path, majority, make):
    whole = lambda path, pixels: Image.fromarray(pixels.astype(np.uint16) << 8).save(path)
    place = rewritten(tmp_path, make.images(tmp_path, bags=20), ".tif", whole)
    assert "0 problems, 0 warnings" in majority("check", place)[1]


def stack(path, pixels):
    first, second = Image.fromarray(np.zeros_like(pixels)), Image.fromarray(pixels)
    first.save(path, save_all=True, append_images=[second])


def with_alpha(path, pixels):
    Image.merge("RGBA", [*Image.fromarray(pixels).convert("RGB").split(), Image.fromarray(255 - pixels)]).save(path)


def with_infrared(path, pixels):
    """A fourth band that its TIFF does not call alpha."""
    with_alpha(path, pixels)
    extra = [struct.pack("<HHIHH", 338, 3, 1, kind, 0) for kind in (2, 0)]
    assert extra[0] in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(*extra))


PAGES = "have further pages, e.g. images/0-0.tif: the first alone is used; write the one that is meant as a file"
BANDS = (
    "have bands beside grey or colour, as alpha or infrared, e.g. images/0-0.tif: these are not used; write images of"
)


@pytest.mark.parametrize(("write", "said"), [(stack, PAGES), (with_alpha, BANDS), (with_infrared, BANDS)])
def test_further_pages_and_bands_are_not_dropped_silently(tmp_path, majority, make, write, said):
    place = rewritten(tmp_path, make.images(tmp_path, bags=20), ".tif", write)
    for _ in range(2):  # the second time from the cache
        code, out, _ = majority("check", place)
        assert code == 0
        assert f"warning: 60 of 60 images {said}" in out
        assert "0 problems, 1 warning" in out


@pytest.mark.parametrize("suffix", [".tif", ".png", ".webp"])
def test_an_alpha_that_is_the_same_everywhere_needs_no_word(tmp_path, majority, make, suffix):
    opaque = lambda path, pixels: Image.fromarray(pixels).convert("RGBA").save(path)
    place = rewritten(tmp_path, make.images(tmp_path, bags=20), suffix, opaque)
    assert "0 problems, 0 warnings" in majority("check", place)[1]


def test_lab_colours_have_no_alpha(tmp_path, majority, make):
    pixels = lambda path, pixels: Image.merge("LAB", [Image.fromarray(pixels)] * 3).save(path)
    place = rewritten(tmp_path, make.images(tmp_path, bags=20), ".tif", pixels)
    assert "0 problems, 0 warnings" in majority("check", place)[1]


def test_transparency_of_a_palette_is_said(tmp_path, majority, make):
    def write(path, pixels):
        image = Image.fromarray(pixels).convert("P")
        image.save(path, transparency=image.getpixel((0, 0)) if path.name == "0-0.gif.png" else None)

    place = rewritten(tmp_path, make.images(tmp_path), ".gif.png", write)
    code, out, _ = majority("check", place)
    assert code == 0
    assert "alpha" in " ".join(out.split())
    save_all = lambda path, pixels: Image.fromarray(pixels).convert("P").save(path)
    place = rewritten(tmp_path, make.images(tmp_path), ".p.png", save_all)
    assert "alpha" not in majority("check", place)[1]


def test_an_image_is_read_as_a_run_reads_it(tmp_path, make):
    deep = lambda path, pixels: Image.fromarray(pixels.astype(np.uint16) << 8).save(path)
    place = rewritten(tmp_path, make.images(tmp_path, bags=4, pixels=(8, 6)), ".deep.png", deep)
    source = load_source(place)
    for row, name in enumerate(source.paths):
        read = read_image(tmp_path / name, source.bags.store.shape[1:])
        assert np.array_equal(read, source.bags.store[row])
    tall = Image.new("RGB", (4, 9), "red")
    tall.putpixel((0, 0), (0, 0, 255))
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn to the right
    tall.save(tmp_path / "turned.png", exif=exif)
    read = read_image(tmp_path / "turned.png", (4, 9, 3))
    assert read[0, -1].tolist() == [0, 0, 255]
    assert (read[..., 0] == 255).sum() == 4 * 9 - 1
    (tmp_path / "broken.png").write_text("no image")
    for name, what in (
        ("broken.png", "it is no PNG, JPEG, TIFF or WEBP image, or is damaged: mend it"),
        ("none.png", "there is no such image: correct the path"),
    ):
        with pytest.raises(InputError, match=f"{name}: {what}"):
            read_image(tmp_path / name, (4, 9, 3))


def test_a_name_in_other_capitals_is_found_out(tmp_path, majority, make):
    table = make.images(tmp_path)
    table.loc[0, "path"] = "images/0-0.PNG"
    code, out, _ = majority("check", save(table, tmp_path))
    assert code == 1
    assert "0-0.PNG: there is no such image: its name on disk is 0-0.png: write it so" in " ".join(out.split())
    (tmp_path / "images/1-0.png").unlink()
    (tmp_path / "images/1-0.png").symlink_to("nowhere.png")
    table.loc[6, "path"] = "elsewhere/2-0.png"
    out = " ".join(majority("check", save(table, tmp_path))[1].split())
    for name in ("1-0.png", "elsewhere/2-0.png"):
        assert f"{name}: there is no such image: correct the path" in out
