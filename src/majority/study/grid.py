"""The cells of a study, run one after another; a finished cell is never run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ..experiments import Data, Experiment
from ..methods import find_method


@dataclass(frozen=True)
class Study:
    sources: tuple[str, ...]
    scenarios: tuple[str, ...]
    methods: tuple[str, ...]
    folds: tuple[int, ...]
    common: Experiment  # what all cells share; its source, scenario, fold and method are replaced

    def cells(self, out: Path) -> Iterator[tuple[Path, Experiment]]:
        for source in self.sources:
            for scenario in self.scenarios:
                for fold in self.folds:
                    data: Data = replace(self.common.data, source=source, scenario=scenario, fold=fold)
                    for method in self.methods:
                        folder = out / Path(source).stem / scenario.replace(",", "-") / method / f"fold{fold}"
                        yield folder, replace(self.common, data=data, method=method)

    def run(self, out: Path, device: str = "auto", say: Callable[[str], None] = lambda line: None) -> list[dict]:
        """All results, in the order of the cells."""
        for method in self.methods:
            find_method(method)
        cells = list(self.cells(out))
        results = []
        for number, (folder, experiment) in enumerate(cells, start=1):
            result = experiment.run(folder, device)
            accuracy = result["test"].get("instance_accuracy")
            shown = "" if accuracy is None else f"instance accuracy {accuracy:.3f}, "
            say(f"[{number}/{len(cells)}] {folder}: {shown}{result['epochs']} epochs, {result['seconds']:.1f} s")
            results.append(result)
        return results
