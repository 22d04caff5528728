"""How often a random part of a bag has another majority than the bag: the risk of `max_instances`.

    python benchmarks/part_plurality.py

Bags of ten classes hold a majority proportion m. The rest is shared equally by the nine other classes
("equal"), or one rival holds 0.8 m (all of the rest if that is less) and the other eight share what is
left ("rival"). Parts are drawn without replacement. Of 100,000 parts per cell, the percentage in which another
class has more instances than the bag's label ("beaten"), and in which the label shares the top ("tied").
The tables in docs/benchmarks/large-bags.md depend on numpy's generator and the seed only, not on the machine.
"""

from __future__ import annotations

import argparse

import numpy as np

CLASSES = 10
BAG_SIZES = (1_000, 10_000)
PART_SIZES = (16, 64, 256, 1_024)
MAJORITIES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
RESTS = ("equal", "rival")
RIVAL = 0.8  # its count, relative to that of the majority class


def counts_of(size: int, majority: float, rest: str) -> np.ndarray:
    """(C,) instances of each class in a bag, the label's first.

    >>> counts_of(1_000, 0.4, "equal").tolist()
    [400, 67, 67, 67, 67, 67, 67, 66, 66, 66]
    >>> counts_of(1_000, 0.4, "rival").tolist()
    [400, 320, 35, 35, 35, 35, 35, 35, 35, 35]
    """
    first = [round(majority * size)]
    if rest == "rival":
        first.append(min(round(RIVAL * first[0]), size - first[0]))
    left, others = size - sum(first), CLASSES - len(first)
    return np.array(first + [left // others + (number < left % others) for number in range(others)])


def beaten_and_tied(counts: np.ndarray, part: int, draws: int, rng: np.random.Generator) -> tuple[float, float]:
    """Share of random parts in which another class beats the first, and in which the first is tied."""
    drawn = rng.multivariate_hypergeometric(counts, part, size=draws, method="marginals")  # (draws, C)
    label, best_rival = drawn[:, 0], drawn[:, 1:].max(axis=1)
    return float((best_rival > label).mean()), float((best_rival == label).mean())


def table(size: int, draws: int, seed: int) -> str:
    lines = [f"| m | rest | {' | '.join(f'part of {part:,}' for part in PART_SIZES)} |"]
    lines.append("|---|---|" + "---|" * len(PART_SIZES))
    for rest in RESTS:
        for majority in MAJORITIES:
            cells = [f"{majority:.1f}", rest]
            for part in PART_SIZES:
                if part >= size:
                    cells.append("whole bag")
                    continue
                rng = np.random.default_rng([seed, size, part, round(10 * majority), RESTS.index(rest)])
                beaten, tied = beaten_and_tied(counts_of(size, majority, rest), part, draws, rng)
                cells.append("never" if beaten == tied == 0 else f"{beaten:.2%} + {tied:.2%}")
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for size in BAG_SIZES:
        print(f"bags of {size:,}: beaten + tied, {options.draws:,} parts per cell\n")
        print(table(size, options.draws, options.seed), end="\n\n")


if __name__ == "__main__":
    main()
