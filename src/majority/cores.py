"""How many CPU cores this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """The cores that are given to this process, or, where the system does not tell, those of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
