import numpy as np
import pandas as pd
import pytest
from PIL import Image

from majority.io import check_source

COLOURS = {"red": (220, 30, 30), "blue": (30, 30, 220)}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def feature_table(bags=30, size=5, seed=0, **more):
    """Rows of two features: instances of class 7 are around (2, 0), of class 12 around (-2, 0)."""
    rng = np.random.default_rng(seed)
    rows = []
    for bag in range(bags):
        majority, minority = ("7", "12") if bag % 2 == 0 else ("12", "7")
        for i in range(size):
            label = majority if i < size // 2 + 1 else minority
            a, b = rng.normal(2.0 if label == "7" else -2.0), rng.normal()
            rows.append({"bag": f"slide{bag}", "bag_label": majority, "label": label, "a": a, "b": b})
    return pd.DataFrame(rows).assign(**more)


def by_bag(table, values):
    """A column with one value per bag; the values are repeated in turn."""
    number = table["bag"].str.removeprefix("slide").astype(int)
    return [values[i % len(values)] for i in number]


def images_table(folder, bags=12, size=3, pixels=(8, 8), suffix=".png", grey=False):
    rng = np.random.default_rng(0)
    rows = []
    for bag in range(bags):
        majority, minority = ("red", "blue") if bag % 2 == 0 else ("blue", "red")
        for i in range(size):
            colour = np.array(COLOURS[majority if i < 2 else minority])
            noisy = np.clip(colour + rng.integers(-20, 20, (*pixels, 3)), 0, 255).astype(np.uint8)
            image = Image.fromarray(noisy)
            name = f"images/{bag}-{i}{suffix}"
            (folder / "images").mkdir(exist_ok=True)
            (image.convert("L") if grey else image).save(folder / name)
            rows.append({"bag": f"b{bag}", "bag_label": majority, "path": name})
    return pd.DataFrame(rows)


def feature_folder(folder, bags=12, seed=0, suffix=".npy", write=None, table=None):
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    rows = []
    for bag in range(bags):
        centre = 2.0 if bag % 2 == 0 else -2.0
        features = rng.normal(centre, 1, (rng.integers(2, 9), 3)).astype(np.float32)
        (write or np.save)(folder / f"s{bag}{suffix}", features)
        rows.append({"bag": f"s{bag}", "label": "tumour" if bag % 2 == 0 else "stroma"})
    frame = pd.DataFrame(rows)
    frame = frame if table is None else table(frame)
    frame.to_csv(folder / "labels.csv", index=False)
    return frame


@pytest.fixture
def make():
    """Functions that make sources."""

    class Makers:
        table = staticmethod(feature_table)
        column = staticmethod(by_bag)
        images = staticmethod(images_table)
        folder = staticmethod(feature_folder)

    return Makers


@pytest.fixture
def finds(tmp_path):
    """Whether a problem or a warning of a source has all these facts, whatever its other words."""

    def run(source, *facts, kind="problem", **options):
        place = tmp_path / "bags.csv"
        if isinstance(source, pd.DataFrame):
            source.to_csv(place, index=False)
        found = check_source(place if isinstance(source, pd.DataFrame) else source, **options)
        texts = [str(problem) for problem in found.problems] if kind == "problem" else found.warnings
        assert kind == "problem" or found.problems == []
        return any(all(fact in text for fact in facts) for text in texts) if facts else not texts

    return run
