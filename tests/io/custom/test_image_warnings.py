"""What images lose when they are read as 8 bits, one page and three bands is refused or warned of."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from majority import InputError, load_source
from majority.io.custom import images as images_module
from majority.io.custom.images import read_image


def save(table, folder):
    table.to_csv(folder / "bags.csv", index=False)
    return folder / "bags.csv"


def rewrite(folder, table, suffix, write):
    """Write each image again by `write(path, grey pixels)`, with another suffix; return the new manifest."""
    for name in table["path"]:
        pixels = np.asarray(Image.open(folder / name).convert("L"))
        write((folder / name).with_suffix(suffix), pixels)
    return save(table.assign(path=table["path"].str.replace(".png", suffix)), folder)


def test_32_bit_integers_are_refused(tmp_path, majority, make, says):
    def write(path, pixels):
        save_grey(path, pixels.astype(np.int32))

    place = rewrite(tmp_path, make.images(tmp_path), ".tif", write)
    code, out, _ = majority("check", place)
    assert code == 1
    assert says(out, "rows 2 to 37: ", "0-0.tif", "32-bit pixels", "8 or 16 bits")


def test_signed_16_bit_integers_are_read(tmp_path, make):
    """Pillow opens them in the mode of 32-bit integers; old versions do so with every 16-bit PNG."""
    place = rewrite(tmp_path, make.images(tmp_path, bags=4), ".tif", save_signed)
    assert Image.open(tmp_path / "images/0-0.tif").mode == "I"
    source = load_source(place)
    expected = np.asarray(Image.open(tmp_path / "images/0-0.png").convert("L")) >> 1
    assert np.array_equal(source.bags.store[list(source.paths).index("images/0-0.tif"), :, :, 0], expected)


def save_grey(path, pixels):
    Image.fromarray(pixels).save(path)


def save_16_bits(path, pixels):
    """The full range of 16 bits."""
    save_grey(path, pixels.astype(np.uint16) << 8)


def save_reflectance(path, pixels):
    """A small part of the range of 16 bits."""
    save_grey(path, (300 + 19 * np.arange(64).reshape(8, 8)).astype(np.uint16))


def save_signed(path, pixels):
    Image.fromarray(pixels.astype(np.uint16) << 7).save(path, tiffinfo={339: 2})


def save_16_bit_colour(path, pixels):
    """A PNG that Pillow cannot write, with the same 16-bit value in all three channels."""
    pixels = pixels.astype(np.uint16) * 16
    height, width = pixels.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in np.repeat(pixels[..., None], 3, axis=2))
    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    written = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(written))


def test_16_bit_images_of_a_small_range_are_warned_of_without_decoding_again(
    tmp_path, majority, make, monkeypatch, says
):
    place, run = rewrite(tmp_path, make.images(tmp_path, bags=20), ".tif", save_reflectance), tmp_path / "run"
    facts = ("warning: 60 of 60 images", "16 bits", "300 to 1,497 of 65,535", "5 of 256 levels")
    for words in (
        ["check", place],
        ["train", place, "--recipe", "quick", "--epochs", 1, "--device", "cpu", "--out", run],
        ["predict", run, place, "--out", tmp_path / "p.csv"],
    ):
        code, out, _ = majority(*words)
        assert code == 0
        assert says(out, *facts)
        monkeypatch.setattr(images_module, "decode", lambda *_: pytest.fail("a file was decoded again"))


def test_16_bit_images_in_colour_and_under_two_paths(tmp_path, majority, make, says):
    table = make.images(tmp_path, bags=20)
    rewrite(tmp_path, table, ".tif", save_16_bit_colour)
    table.loc[0, "path"], table.loc[1, "path"] = "images/0-0.tif", "./images/0-0.tif"
    table.loc[1, "bag"] = "b2"
    _, out, _ = majority("check", save(table, tmp_path))
    assert says(out, "warning: 2 of 60 images", "16 bits", "of 65,535")


def test_16_bit_images_of_the_full_range_are_not_warned_of(tmp_path, majority, make):
    place = rewrite(tmp_path, make.images(tmp_path, bags=20), ".tif", save_16_bits)
    assert "0 problems, 0 warnings" in majority("check", place)[1]


def save_pages(path, pixels):
    first, second = Image.fromarray(np.zeros_like(pixels)), Image.fromarray(pixels)
    first.save(path, save_all=True, append_images=[second])


def save_alpha(path, pixels):
    Image.merge("RGBA", [*Image.fromarray(pixels).convert("RGB").split(), Image.fromarray(255 - pixels)]).save(path)


def save_infrared(path, pixels):
    """A fourth band that is not marked as alpha."""
    save_alpha(path, pixels)
    extra = [struct.pack("<HHIHH", 338, 3, 1, kind, 0) for kind in (2, 0)]
    assert extra[0] in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(*extra))


PAGES = ("further pages", "the first page")
BANDS = ("bands", "alpha or infrared", "three bands")


@pytest.mark.parametrize(("write", "facts"), [(save_pages, PAGES), (save_alpha, BANDS), (save_infrared, BANDS)])
def test_further_pages_and_bands_are_warned_of(tmp_path, majority, make, says, write, facts):
    place = rewrite(tmp_path, make.images(tmp_path, bags=20), ".tif", write)
    for _ in range(2):  # the second time from the cache
        code, out, _ = majority("check", place)
        assert code == 0
        assert says(out, "warning: 60 of 60 images", "images/0-0.tif", *facts)
        assert "0 problems, 1 warning" in out


@pytest.mark.parametrize("suffix", [".tif", ".png", ".webp"])
def test_a_constant_alpha_channel_is_not_warned_of(tmp_path, majority, make, suffix):
    def write(path, pixels):
        Image.fromarray(pixels).convert("RGBA").save(path)

    place = rewrite(tmp_path, make.images(tmp_path, bags=20), suffix, write)
    assert "0 problems, 0 warnings" in majority("check", place)[1]


def test_lab_images_have_no_alpha_channel(tmp_path, majority, make):
    def write(path, pixels):
        Image.merge("LAB", [Image.fromarray(pixels)] * 3).save(path)

    place = rewrite(tmp_path, make.images(tmp_path, bags=20), ".tif", write)
    assert "0 problems, 0 warnings" in majority("check", place)[1]


def test_transparency_of_a_palette_is_warned_of(tmp_path, majority, make):
    def write_transparent(path, pixels):
        image = Image.fromarray(pixels).convert("P")
        image.save(path, transparency=image.getpixel((0, 0)) if path.name == "0-0.gif.png" else None)

    def write_opaque(path, pixels):
        Image.fromarray(pixels).convert("P").save(path)

    place = rewrite(tmp_path, make.images(tmp_path), ".gif.png", write_transparent)
    code, out, _ = majority("check", place)
    assert code == 0
    assert "alpha" in out
    place = rewrite(tmp_path, make.images(tmp_path), ".p.png", write_opaque)
    assert "alpha" not in majority("check", place)[1]


def test_read_image_reads_as_a_run_does(tmp_path, make):
    place = rewrite(tmp_path, make.images(tmp_path, bags=4, pixels=(8, 6)), ".deep.png", save_16_bits)
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
    (tmp_path / "broken.png").write_text("not an image")
    for name, what in (
        ("broken.png", "PNG, JPEG, TIFF or WEBP.*damaged.*leave it out"),
        ("none.png", "no such image.*correct the path"),
    ):
        with pytest.raises(InputError, match=f"{name}.*{what}"):
            read_image(tmp_path / name, (4, 9, 3))


def test_a_name_that_differs_in_capitals_is_suggested(tmp_path, majority, make, says):
    table = make.images(tmp_path)
    table.loc[0, "path"] = "images/0-0.PNG"
    code, out, _ = majority("check", save(table, tmp_path))
    assert code == 1
    assert says(out, "row 2: ", "0-0.PNG", "no such image", "its name on disk is 0-0.png")
    (tmp_path / "images/1-0.png").unlink()
    (tmp_path / "images/1-0.png").symlink_to("nowhere.png")
    table.loc[6, "path"] = "elsewhere/2-0.png"
    out = majority("check", save(table, tmp_path))[1]
    for name in ("1-0.png", "elsewhere/2-0.png"):
        assert says(out, name, "no such image", "correct the path")
