"""Registries: everything that has a name in `majority list`. `register()` adds to them, from our files and from yours.

The environment variable MAJORITY_PLUGINS names Python files of your own. They are run before a name is looked up, in
every process, so that the command and its workers know what the files register.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any, Protocol, TypeVar

from .errors import InputError, unknown_name
from .files import user_path

PLUGINS = "MAJORITY_PLUGINS"
_LOADED: set[str] = set()  # values of the variable whose files were run


class Entry(Protocol):
    @property
    def name(self) -> str: ...


E = TypeVar("E", bound=Entry)


class Registry(dict[str, E]):
    """Entries of one type by name, in the order in which they were registered."""

    def __init__(self, kind: str, entry_type: type[E], reserved: Sequence[str] = ()):
        super().__init__()
        self.kind, self.entry_type, self.reserved = kind, entry_type, reserved
        _REGISTRIES.append(self)

    def __setitem__(self, name: str, entry: E) -> None:
        if not isinstance(entry, self.entry_type):
            found, expected = type(entry).__name__, self.entry_type.__name__
            raise InputError(f"{self.kind} {name!r} is an object of type {found}: give a {expected}")
        if not (isinstance(name, str) and name and not set(name) & set("/\\,\0")):
            raise InputError(f"{self.kind} {name!r}: give a name without slashes and commas")
        if name in self.reserved:
            raise InputError(f"{self.kind} {name!r}: this name is reserved: choose another")
        super().__setitem__(name, entry)

    def find(self, name: str, more: str = "", also: Sequence[str] = ()) -> E:
        """The entry of this name; a message lists those of `also` too. The files of MAJORITY_PLUGINS are run first,
        once per process."""
        load_plugins()
        if name not in self:
            own = f"{more}, or register your own, in a file that {PLUGINS} names"
            raise unknown_name(self.kind, name, [*also, *self], own)
        return self[name]


_REGISTRIES: list[Registry[Any]] = []


def register(entry: E) -> E:
    """Make a method, backbone, encoder, augmentation, source or recipe known by its name, replacing an earlier one.

    >>> from majority import Backbone
    >>> from torch import nn
    >>> register(Backbone("flat", lambda shape: nn.Flatten(), "the values themselves")).name
    'flat'
    """
    for registry in _REGISTRIES:
        if isinstance(entry, registry.entry_type):
            registry[entry.name] = entry
            return entry
    known = "Method, Backbone, Encoder, Augmentation, NamedSource or Recipe"
    raise InputError(f"register() got an object of type {type(entry).__name__}: give a {known}")


def registered_descriptions(kind: str) -> dict[str, str]:
    """What the modules that were imported so far have registered: name -> description."""
    return {e.name: e.about for registry in _REGISTRIES if registry.kind == kind for e in registry.values()}


def load_plugins() -> None:
    """Run each file that the environment variable names, once; paths are separated as in PATH."""
    places = os.environ.get(PLUGINS, "")
    if places in _LOADED:
        return
    _LOADED.add(places)  # before they run: one may look up a method
    try:
        for place in filter(None, places.split(os.pathsep)):
            _run_file(place)
    except InputError:
        _LOADED.discard(places)
        raise


def _run_file(place: str) -> None:
    path = user_path(place)
    if path.suffix != ".py" or not path.is_file():
        raise InputError(f"{PLUGINS} names {place}, and there is no such Python file: correct the path")
    spec = spec_from_file_location(f"majority_plugin_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        cure = f"fix the file, or take it out of {PLUGINS} (`majority --debug` shows the traceback)"
        raise InputError(f"{path} of {PLUGINS} fails ({type(error).__name__}: {error}): {cure}") from error
