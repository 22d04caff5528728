"""The command `majority`: parse, call, print. Modules that need torch are imported only when a command needs them."""

from . import audit, demo, inspect_sources, runs, study, train
from .app import main

__all__ = ["audit", "demo", "inspect_sources", "main", "runs", "study", "train"]
