"""MAJORITY_PLUGINS: Python files of your own, run before names are judged, so that every process knows your methods."""

from __future__ import annotations

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from .errors import InputError

PLUGINS = "MAJORITY_PLUGINS"
_LOADED: set[str] = set()  # values of it


def load_plugins() -> None:
    """Run each file that the environment variable names, once; paths are separated as in PATH."""
    places = os.environ.get(PLUGINS, "")
    if places in _LOADED:
        return
    _LOADED.add(places)  # before they run: one may ask for a method
    try:
        _load(places)
    except InputError:
        _LOADED.discard(places)
        raise


def _load(places: str) -> None:
    for place in filter(None, places.split(os.pathsep)):
        path = Path(place).expanduser()
        if path.suffix != ".py" or not path.is_file():
            raise InputError(f"{PLUGINS} names {place}, and there is no such Python file: mend the path")
        spec = spec_from_file_location(f"majority_plugin_{path.stem}", path)
        module = module_from_spec(spec)
        sys.modules[spec.name] = module
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            cure = f"mend the file, or take it out of {PLUGINS} (`majority --debug` shows the traceback)"
            raise InputError(f"{path} of {PLUGINS} fails ({type(error).__name__}: {error}): {cure}") from error
        from .methods import METHODS, Method  # not before there is need: they are slow to import

        for name, method in METHODS.items():
            if not isinstance(method, Method):
                raise InputError(f"{path} of {PLUGINS}: METHODS[{name!r}] is no Method: give Method(NAME, HEAD, ABOUT)")
