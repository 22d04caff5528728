"""What a process of a group does in a test: a function of the test's module, whose result goes to a file."""

import importlib.util
import pickle
from pathlib import Path


def be_process(module, function, rank, size, folder, args):
    spec = importlib.util.spec_from_file_location("in_process", module)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    result = getattr(loaded, function)(rank, size, folder, *args)
    Path(folder, f"result-{rank}").write_bytes(pickle.dumps(result))
