"""The command `majority`: parse, call, print. Modules that need torch are imported only when a command needs them."""

from . import runs, sources, train
from .app import main

__all__ = ["main", "runs", "sources", "train"]
