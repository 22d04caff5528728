"""Images inside a page."""

from base64 import b64decode
from io import BytesIO

import numpy as np
from PIL import Image

from majority.run.plots.pictures import png_data_uri


def decode(uri):
    return Image.open(BytesIO(b64decode(uri.partition(",")[2])))


def test_png_keeps_grey_pixels_and_the_size_of_colour_images():
    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, 3), dtype=np.uint8)
    assert np.array_equal(np.asarray(decode(png_data_uri(pixels[:, :, :1]))), pixels[:, :, 0])
    assert decode(png_data_uri(pixels)).size == (7, 9)
