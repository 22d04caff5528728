"""The address where the authors of each data set publish its files, and the checksum of each file."""

from __future__ import annotations

from typing import NamedTuple

TORONTO = "https://www.cs.toronto.edu/~kriz"
STANFORD = "https://ufldl.stanford.edu/housenumbers"
ZENODO = "https://zenodo.org/records/10519652/files"


class Published(NamedTuple):
    url: str
    checksum: str  # the md5 that its authors publish, or the sha256 of a file with this md5, where one was at hand


def _cifar(checksum: str) -> Published:
    return Published(f"{TORONTO}/cifar-10-binary.tar.gz", checksum)


def _medmnist(name: str, checksum: str) -> Published:
    return Published(f"{ZENODO}/{name}.npz?download=1", checksum)


PUBLISHED = {  # path within the data folder -> address and checksum
    "cifar-10-binary.tar.gz": _cifar("md5:c32a1d4ab5d03f1284b67883e8d87530"),
    "cifar-10-batches-bin/data_batch_1.bin": _cifar(
        "sha256:cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"
    ),
    "cifar-10-batches-bin/data_batch_2.bin": _cifar(
        "sha256:a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"
    ),
    "cifar-10-batches-bin/data_batch_3.bin": _cifar(
        "sha256:bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"
    ),
    "cifar-10-batches-bin/data_batch_4.bin": _cifar(
        "sha256:014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"
    ),
    "cifar-10-batches-bin/data_batch_5.bin": _cifar(
        "sha256:755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"
    ),
    "cifar-10-batches-bin/test_batch.bin": _cifar(
        "sha256:8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"
    ),
    "train_32x32.mat": Published(f"{STANFORD}/train_32x32.mat", "md5:e26dedcc434d2e4c54c9b2d4a06d8373"),
    "test_32x32.mat": Published(f"{STANFORD}/test_32x32.mat", "md5:eb5a983be6a315427106f1b164d9cef3"),
    "pathmnist.npz": _medmnist("pathmnist", "sha256:81823f52dc622e69db2db4c72f8e8e617938dd6864d3c1f23d4e49724a28ea72"),
    "octmnist.npz": _medmnist("octmnist", "md5:c68d92d5b585d8d81f7112f81e2d0842"),
    "dermamnist.npz": _medmnist("dermamnist", "md5:0744692d530f8e62ec473284d019b0c7"),
    "bloodmnist.npz": _medmnist("bloodmnist", "md5:7053d0359d879ad8a5505303e11de1dc"),
    "tissuemnist.npz": _medmnist("tissuemnist", "md5:ebe78ee8b05294063de985d821c1c34b"),
    "organamnist.npz": _medmnist("organamnist", "md5:68e3f8846a6bd62f0c9bf841c0d9eacc"),
    "organcmnist.npz": _medmnist("organcmnist", "md5:b9ceb9546e10131b32923c5bbeaea2b1"),
    "organsmnist.npz": _medmnist("organsmnist", "md5:9ab87b696fb54e2a387ebe992d6ed5f1"),
    "retinamnist.npz": _medmnist("retinamnist", "md5:bd4c0672f1bba3e3a89f0e4e876791e4"),
    "pneumoniamnist.npz": _medmnist(
        "pneumoniamnist", "sha256:e1792d3f03751cb101e99f19a63b3c1941436c988665f47853417b05be250cd8"
    ),
    "breastmnist.npz": _medmnist("breastmnist", "md5:750601b1f35ba3300ea97c75c52ff8f6"),
}
