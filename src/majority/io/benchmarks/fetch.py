"""Published files: found in the data folder or the user cache, downloaded if missing, checked by their checksums."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ...errors import InputError
from ...files import cache_folder, user_path
from .published import PUBLISHED

DATA_VARIABLE = "MAJORITY_DATA"


def data_folders() -> list[Path]:
    """Where published files are searched for: the folder that MAJORITY_DATA names, then the user cache."""
    named = os.environ.get(DATA_VARIABLE)
    if not named:
        return [cache_folder()]
    folder = user_path(named)
    if not folder.is_dir():
        raise InputError(f"{DATA_VARIABLE} names {folder}, which is not a folder: create it, or unset {DATA_VARIABLE}")
    return [folder, cache_folder()]


def find(name: str) -> Path | None:
    """The first file of this name in the data folders; its content is not checked."""
    return next((folder / name for folder in data_folders() if (folder / name).is_file()), None)


def fetch(name: str) -> Path:
    """The published file of this name, checked; it is downloaded into the user cache if it is missing."""
    published, path = PUBLISHED[name], find(name)
    if path is None:
        return _download(name)
    algorithm, expected = published.checksum.split(":")
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): correct its permissions or remove it") from error
    if found != expected:
        raise InputError(
            f"{path} is damaged or is not the published file ({algorithm} {found}, published {expected}): "
            f"delete it and run again to download it from {published.url}"
        )
    return path


def _download(name: str) -> Path:
    """From its authors' address; a file with another checksum is not kept."""
    import pooch

    published, folder = PUBLISHED[name], cache_folder()
    try:
        return Path(pooch.retrieve(published.url, published.checksum, name, folder))
    except (OSError, ValueError) as error:  # no connection, no such page, another checksum, a full disk
        raise InputError(
            f"{name} could not be downloaded from {published.url} ({error}): try again later, or download it by hand "
            f"and save it as {name} in {folder} or in the {DATA_VARIABLE} folder"
        ) from None
