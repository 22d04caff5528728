"""Source: the base of everything that bags come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import numpy as np

from ..data.bags import Bags
from ..data.column_encoder import ColumnEncoder
from ..data.splitting import MIN_BAGS
from .embedding import Embedding
from .image_summary import ImageFileSummary

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    TestBags = TypeVar("TestBags", bound=Bags | None, covariant=True, default=Bags | None)
else:
    from typing import TypeVar

    TestBags = TypeVar("TestBags")  # Python has defaults of type variables from 3.13 on

IN_MEMORY = "bags in memory"  # the source of a run whose bags were given from Python


class Parts(NamedTuple, Generic[TestBags]):
    """Bags for training, for validation (model selection) and for testing. No two parts share an instance.

    For type checkers, `Parts[Bags]` always has test bags, and `Parts` may have none.
    """

    train: Bags
    val: Bags
    test: TestBags  # None where a source of your own marks no test bags

    def present(self) -> dict[str, Bags]:
        """The parts that there are, by name."""
        return {name: bags for name, bags in self._asdict().items() if bags is not None}


class Source:
    """What `load` returns: a `LabelledSet`, which makes bags from its labelled instances, or `CustomBags`, which are
    used as they are. Both take the same arguments in `make_parts`; one that has no meaning for a source is refused with
    an `InputError` unless it is left at None."""

    name: str
    kind: str = ""  # the registered name, by which label-preserving augmentations are looked up; "": there is none
    encoder: ColumnEncoder | None = None  # how the columns of a manifest became features
    embedding: Embedding | None = None  # the network that made the features
    paths: np.ndarray | None = None  # (N,) the path of each image in the store, as the manifest writes it
    numbered_within_bags: bool = False  # an instance without a path is known by its row in the file of its bag

    @property
    def image_files(self) -> ImageFileSummary | None:
        """Sizes and colours of the original images; None where the instances are vectors."""
        return None

    def warnings_for(self, background: str | None, min_bags: int = MIN_BAGS) -> list[str]:
        """The warnings that were found when the source was read and that apply with this background class and
        this minimum of bags per class."""
        return []

    def make_parts(self, *args: Any, **choices: Any) -> Parts:
        """Training, validation and test bags, the same for the same choices: `fold`, `folds`, `data_seed`,
        `background`; and, to make bags from a labelled set, those of `LabelledSet.make_parts`."""
        raise NotImplementedError
