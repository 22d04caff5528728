"""Published files: their addresses and checksums; found in the data folder or the user cache, or downloaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from ...errors import InputError
from ...files import cache_folder, user_path

DATA_VARIABLE = "MAJORITY_DATA"
CIFAR = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
STANFORD = "https://ufldl.stanford.edu/housenumbers"
ZENODO = "https://zenodo.org/records/10519652/files"


class Published(NamedTuple):
    url: str
    checksum: str  # the md5 that its authors publish, or the sha256 of a file with this md5, where one was at hand


CIFAR_BATCHES = {
    "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
MEDMNIST = {
    "pathmnist": "sha256:81823f52dc622e69db2db4c72f8e8e617938dd6864d3c1f23d4e49724a28ea72",
    "octmnist": "md5:c68d92d5b585d8d81f7112f81e2d0842",
    "dermamnist": "md5:0744692d530f8e62ec473284d019b0c7",
    "bloodmnist": "md5:7053d0359d879ad8a5505303e11de1dc",
    "tissuemnist": "md5:ebe78ee8b05294063de985d821c1c34b",
    "organamnist": "md5:68e3f8846a6bd62f0c9bf841c0d9eacc",
    "organcmnist": "md5:b9ceb9546e10131b32923c5bbeaea2b1",
    "organsmnist": "md5:9ab87b696fb54e2a387ebe992d6ed5f1",
    "retinamnist": "md5:bd4c0672f1bba3e3a89f0e4e876791e4",
    "pneumoniamnist": "sha256:e1792d3f03751cb101e99f19a63b3c1941436c988665f47853417b05be250cd8",
    "breastmnist": "md5:750601b1f35ba3300ea97c75c52ff8f6",
}
PUBLISHED = {  # path within the data folder -> address and checksum
    "cifar-10-binary.tar.gz": Published(CIFAR, "md5:c32a1d4ab5d03f1284b67883e8d87530"),
    "train_32x32.mat": Published(f"{STANFORD}/train_32x32.mat", "md5:e26dedcc434d2e4c54c9b2d4a06d8373"),
    "test_32x32.mat": Published(f"{STANFORD}/test_32x32.mat", "md5:eb5a983be6a315427106f1b164d9cef3"),
}
PUBLISHED |= {f"cifar-10-batches-bin/{n}.bin": Published(CIFAR, f"sha256:{sha}") for n, sha in CIFAR_BATCHES.items()}
PUBLISHED |= {f"{n}.npz": Published(f"{ZENODO}/{n}.npz?download=1", checksum) for n, checksum in MEDMNIST.items()}


def find(name: str) -> Path | None:
    """The file of this name in the folder that MAJORITY_DATA names, or else in the user cache; it is not checked."""
    folders = [cache_folder()]
    if named := os.environ.get(DATA_VARIABLE):
        if not os.path.isdir(user_path(named)):
            raise InputError(
                f"{DATA_VARIABLE} names {named}, which is not a folder: create it, or unset {DATA_VARIABLE}"
            )
        folders.insert(0, user_path(named))
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def fetch(name: str) -> Path:
    """The published file of this name, checked; it is downloaded into the user cache if it is missing."""
    import pooch

    (url, checksum), path, folder = PUBLISHED[name], find(name), cache_folder()
    try:
        if path is None:
            return Path(pooch.retrieve(url, checksum, name, folder))
        found = pooch.file_hash(str(path), alg=checksum.split(":")[0])
    except (OSError, ValueError) as error:  # no connection, no such page, another checksum, a full disk
        raise InputError(
            f"{name} could not be read or downloaded from {url} ({error}): try again later, or download it by hand and "
            f"save it as {name} in {folder} or in the {DATA_VARIABLE} folder"
        ) from None
    if found != checksum.split(":")[1]:
        raise InputError(
            f"{path} is damaged or is not the published file (checksum {found}, published {checksum}): delete it and "
            f"run again to download it from {url}"
        )
    return path
