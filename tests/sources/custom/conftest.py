import numpy as np
import pandas as pd
import pytest
from PIL import Image

COLOURS = {"red": (220, 30, 30), "blue": (30, 30, 220)}


@pytest.fixture(autouse=True)
def _cache_of_this_test(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def feature_table(bags=30, size=5, seed=0, **more):
    """Rows of two features: instances of class 7 about (2, 0), of class 12 about (-2, 0)."""
    rng = np.random.default_rng(seed)
    rows = []
    for bag in range(bags):
        winner, other = ("7", "12") if bag % 2 == 0 else ("12", "7")
        for i in range(size):
            truth = winner if i < size // 2 + 1 else other
            a, b = rng.normal(2.0 if truth == "7" else -2.0), rng.normal()
            rows.append({"bag": f"slide{bag}", "bag_label": winner, "label": truth, "a": a, "b": b})
    return pd.DataFrame(rows).assign(**more)


def by_bag(table, values):
    """A column in which each bag has its value, in turn."""
    number = table["bag"].str.removeprefix("slide").astype(int)
    return [values[i % len(values)] for i in number]


def images_table(folder, bags=12, size=3, pixels=(8, 8), suffix=".png", grey=False):
    rng = np.random.default_rng(0)
    rows = []
    for bag in range(bags):
        winner, other = ("red", "blue") if bag % 2 == 0 else ("blue", "red")
        for i in range(size):
            colour = np.array(COLOURS[winner if i < 2 else other])
            noisy = np.clip(colour + rng.integers(-20, 20, (*pixels, 3)), 0, 255).astype(np.uint8)
            image = Image.fromarray(noisy)
            name = f"images/{bag}-{i}{suffix}"
            (folder / "images").mkdir(exist_ok=True)
            (image.convert("L") if grey else image).save(folder / name)
            rows.append({"bag": f"b{bag}", "bag_label": winner, "path": name})
    return pd.DataFrame(rows)


def feature_folder(folder, bags=30, seed=0, suffix=".npy", write=None, table=None):
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    rows = []
    for bag in range(bags):
        centre = 2.0 if bag % 2 == 0 else -2.0
        features = rng.normal(centre, 1, (rng.integers(2, 9), 3)).astype(np.float32)
        place = folder / f"s{bag}{suffix}"
        (write or np.save)(place, features)
        rows.append({"bag": f"s{bag}", "label": "tumour" if bag % 2 == 0 else "stroma"})
    frame = pd.DataFrame(rows)
    frame = frame if table is None else table(frame)
    frame.to_csv(folder / "labels.csv", index=False)
    return frame


@pytest.fixture
def make():
    """The makers of sources."""

    class Makers:
        table = staticmethod(feature_table)
        column = staticmethod(by_bag)
        images = staticmethod(images_table)
        folder = staticmethod(feature_folder)

    return Makers
