"""Tables of images: formats, sizes, what is lost, and images that cannot be used."""

import unicodedata

import numpy as np
import pytest
from PIL import Image

from majority import InputError, load_source
from majority.data import stores
from majority.io.custom.images import read_image

TRAIN = ("--recipe", "quick", "--epochs", 1, "--device", "cpu")


def save(table, folder):
    table.to_csv(folder / "bags.csv", index=False)
    return folder / "bags.csv"


def pixels_of(source, name):
    return source.bags.store[[*source.paths].index(name)]


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tif", ".webp"])
def test_every_format_colour_and_grey(tmp_path, make, suffix):
    for grey in (False, True):
        source = load_source(save(make.images(tmp_path, bags=4, suffix=suffix, grey=grey), tmp_path))
        assert source.bags.store.shape == (12, 8, 8, 1 if grey and suffix != ".webp" else 3)  # WebP has no grey
        assert source.bags.store.dtype == np.uint8
    written = np.asarray(Image.open(tmp_path / f"images/0-0{suffix}"))
    assert np.array_equal(pixels_of(source, f"images/0-0{suffix}").squeeze(), written)


def test_sizes(tmp_path, make, finds):
    place = save(make.images(tmp_path, bags=20, pixels=(10, 12)), tmp_path)
    assert load_source(place).bags.store.shape[1:] == (10, 12, 3)  # all have one size
    assert load_source(place, image_size=16).bags.store.shape[1:] == (16, 16, 3)
    assert finds(place, kind="warning")
    Image.new("RGB", (30, 20)).save(tmp_path / "images/0-0.png")
    Image.new("L", (12, 10), 77).save(tmp_path / "images/1-0.png")
    source = load_source(place)
    assert source.bags.store.shape[1:] == (64, 64, 3)
    assert (pixels_of(source, "images/1-0.png") == 77).all()
    assert str(source.image_files) == "10 to 20 high and 12 to 30 wide, grey and colour"
    assert finds(place, "resized to 64x64 from 10 to 20 high and 12 to 30 wide", "--image-size", kind="warning")
    assert finds(place, "1 of 60 images are grey", "images/1-0.png", kind="warning")
    assert load_source(save(make.images(tmp_path, pixels=(4, 300)), tmp_path)).bags.store.shape[1:] == (64, 64, 3)


@pytest.mark.parametrize(("suffix", "turn"), [(".jpg", 6), (".tif", 7), (".deep.png", 6)])
def test_the_exif_orientation_is_applied_before_resizing(tmp_path, make, suffix, turn):
    table = make.images(tmp_path, bags=4, suffix=suffix)
    exif = Image.Exif()
    exif[0x0112] = turn
    stored = np.zeros((12, 8) if "deep" in suffix else (12, 8, 3), np.uint8)
    stored[:6] = 255  # the upper half becomes the right one, or mirrored or turned the other way the left one
    stored = stored.astype(np.uint16) << 8 if "deep" in suffix else stored
    for name in table["path"]:
        Image.fromarray(stored).save(tmp_path / name, exif=exif)
    source = load_source(save(table, tmp_path))
    assert source.image_files.sizes == "8x12"
    for size, shape in ((None, (8, 12)), (16, (16, 16))):
        store = load_source(tmp_path / "bags.csv", image_size=size).bags.store
        assert store.shape[1:3] == shape
        half = shape[1] // 2
        left, right = store[:, :, : half - 2], store[:, :, half + 2 :]
        dark, bright = (left, right) if turn in (6, 7) else (right, left)
        assert (dark < 60).all()
        assert (bright > 200).all()


def save_16_bits(path, pixels, lowest=0, highest=65_535):
    grey = pixels.astype(float).mean(axis=2)
    scaled = (lowest + grey / 255 * (highest - lowest)).astype(np.uint16)
    scaled.flat[:2] = lowest, highest
    Image.fromarray(scaled).save(path)


LOST = {  # how images are written -> facts of the warning, None if there is none
    "few of 16 bits": (
        ".png",
        lambda path, pixels: save_16_bits(path, pixels, 0, 4095),
        ("16 bits", "at most 16 of 256"),
    ),
    "all of 16 bits": (".png", save_16_bits, None),
    "pages": (
        ".tif",
        lambda path, pixels: Image.fromarray(pixels).save(
            path, save_all=True, append_images=[Image.new("RGB", (8, 8))]
        ),
        ("further pages", "only the first page is used"),
    ),
}


@pytest.mark.parametrize("kind", LOST)
def test_what_is_lost_is_warned_of(tmp_path, make, finds, kind):
    suffix, write, facts = LOST[kind]
    table = make.images(tmp_path, bags=12, suffix=suffix)
    for name in table["path"]:
        write(tmp_path / name, np.asarray(Image.open(tmp_path / name).convert("RGB")))
    place = save(table, tmp_path)
    assert finds(place, *(facts or ("16 bits",)), kind="warning") == (facts is not None)


def test_images_that_do_not_fit_into_memory_are_read_from_disk(tmp_path, make, monkeypatch):
    place = save(make.images(tmp_path), tmp_path)
    held = load_source(place).bags
    monkeypatch.setattr(stores, "IN_MEMORY_BYTES", 0)
    on_disk = load_source(place).bags
    assert not isinstance(on_disk.store, np.ndarray)
    assert on_disk.fingerprint() == held.fingerprint()


def test_read_image_reads_as_a_run_does(tmp_path, make):
    source = load_source(save(make.images(tmp_path, bags=4, pixels=(8, 6)), tmp_path), image_size=5)
    for row, name in enumerate(source.paths):
        assert np.array_equal(read_image(tmp_path / name, source.bags.store.shape[1:]), source.bags.store[row])
    (tmp_path / "broken.png").write_text("not an image")
    for name, what in (("broken.png", "PNG, JPEG, TIFF or WEBP.*damaged"), ("none.png", "no such image.*correct")):
        with pytest.raises(InputError, match=f"{name}.*{what}"):
            read_image(tmp_path / name, (4, 9, 3))


def test_all_wrong_images_are_reported(tmp_path, make, finds):
    table = make.images(tmp_path)
    (tmp_path / "images/0-0.png").unlink()
    (tmp_path / "images/1-0.png").write_bytes(b"no image")
    whole = (tmp_path / "images/2-0.png").read_bytes()
    (tmp_path / "images/2-0.png").write_bytes(whole[: len(whole) // 2])
    Image.new("1", (10_000, 7_000)).save(tmp_path / "images/3-0.png")  # 70 million pixels in a small file
    Image.fromarray(np.zeros((8, 8), np.float32)).save(tmp_path / "images/4-0.tif")
    table.loc[12, "path"] = "images/4-0.tif"
    table.loc[15, "path"] = ""
    table.loc[18, "path"] = "images/6-0.PNG"
    table.loc[21, "path"] = "images\\7-0.png"
    table.loc[24, "path"] = "\x00"
    place = save(table, tmp_path)
    for row, name, *facts in [
        (2, "0-0.png", "no such image", "correct the path"),
        (5, "1-0.png", "PNG, JPEG, TIFF or WEBP", "damaged", "leave it out"),
        (8, "2-0.png", "cannot be decoded"),
        (11, "3-0.png", "more than 64,000,000", "make it smaller"),
        (14, "4-0.tif", "floating-point", "8 or 16 bits"),
        (17, "path is empty"),
        (20, "6-0.PNG", "no such image"),
        (23, "7-0.png", "no such image", "write / between folders, not \\"),
        (26, "bags.csv"),
    ]:
        assert finds(place, f"bags.csv, row {row}: ", name, *facts)


def test_a_name_in_other_capitals_is_guessed(tmp_path, make, finds):
    table = make.images(tmp_path, bags=4)
    place = save(table.assign(path=table["path"].str.replace("png", "PNG")), tmp_path)
    assert finds(place, "0-0.PNG: there is no such image (did you mean", "0-0.png?)")


@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")])
def test_a_file_is_found_in_both_unicode_forms(tmp_path, make, forms):
    table = make.images(tmp_path, bags=4)
    on_disk, in_table = (unicodedata.normalize(form, "images/Gewebe-ä.png") for form in forms)
    (tmp_path / "images/0-0.png").rename(tmp_path / on_disk)
    table.loc[0, "path"] = in_table
    assert in_table in load_source(save(table, tmp_path)).paths


def test_the_same_image_twice(tmp_path, make, finds):
    table = make.images(tmp_path, bags=20)
    table.loc[1, "path"] = "images/0-0.png"
    place = save(table, tmp_path)
    assert finds(place, "another row of their bag: 1, ", "row 3", "same as row 2", kind="warning")
    assert len(load_source(place).bags.bag(0)) == 3
    table = make.images(tmp_path, bags=20)
    table.loc[3, "path"] = "images/0-0.png"
    assert finds(save(table, tmp_path), "images in two or more bags", "split or group column", kind="warning")
    table["split"] = ["train"] * 3 + ["val"] * 3 + ["Train"] * 27 + ["val"] * 27
    assert finds(save(table, tmp_path), "row 5", "two splits", "'train'", "'val'")


def test_images_unlike_those_of_the_run_are_warned_of(tmp_path, majority, succeeds, make, says):
    place, run = save(make.images(tmp_path, bags=20, grey=True), tmp_path), tmp_path / "run"
    majority("train", place, *TRAIN, "--out", run)
    (tmp_path / "other").mkdir()
    for kind, example in [({"pixels": (28, 28)}, "28x28, colour"), ({"grey": True}, None)]:
        new = save(make.images(tmp_path / "other", **kind), tmp_path / "other")
        out = succeeds("evaluate", run, new)
        facts = ("warning: 36 of 36 images", "trained on (8x8, grey)", "become 8x8x1", f"images/0-0.png ({example})")
        assert says(out, *facts) == (example is not None)
