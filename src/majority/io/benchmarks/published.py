"""The address where the authors of each data set publish its files, and the checksums of each file."""

from __future__ import annotations

from dataclasses import dataclass

TORONTO = "https://www.cs.toronto.edu/~kriz"
STANFORD = "https://ufldl.stanford.edu/housenumbers"
ZENODO = "https://zenodo.org/records/10519652/files"


@dataclass(frozen=True)
class Published:
    url: str
    md5: str  # as its authors publish it
    sha256: str | None = None  # computed from a file with this md5; None where none was at hand

    @property
    def checksum(self) -> tuple[str, str]:
        """The strongest known checksum: the name of the algorithm and the value."""
        return ("sha256", self.sha256) if self.sha256 else ("md5", self.md5)


def _cifar(md5: str, sha256: str | None = None) -> Published:
    return Published(f"{TORONTO}/cifar-10-binary.tar.gz", md5, sha256)


def _medmnist(name: str, md5: str, sha256: str | None = None) -> Published:
    return Published(f"{ZENODO}/{name}.npz?download=1", md5, sha256)


PUBLISHED = {  # path within the data folder -> address and checksums
    "cifar-10-binary.tar.gz": _cifar("c32a1d4ab5d03f1284b67883e8d87530"),
    "cifar-10-batches-bin/data_batch_1.bin": _cifar(
        "5dd7e06a14cb22eb9f671a540d1b7c25", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"
    ),
    "cifar-10-batches-bin/data_batch_2.bin": _cifar(
        "5ea93a67294ea407fff1d09f752e9692", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"
    ),
    "cifar-10-batches-bin/data_batch_3.bin": _cifar(
        "942cd6a4bcdd0dd3c604fbe906cb4421", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"
    ),
    "cifar-10-batches-bin/data_batch_4.bin": _cifar(
        "ae636b3ba5c66a11e91e8cb52e771fcb", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"
    ),
    "cifar-10-batches-bin/data_batch_5.bin": _cifar(
        "53f37980c15c3d472c316c40844f3f0d", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"
    ),
    "cifar-10-batches-bin/test_batch.bin": _cifar(
        "803d5f7f4d78ea53de84dbe85f74fb6d", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"
    ),
    "train_32x32.mat": Published(f"{STANFORD}/train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
    "test_32x32.mat": Published(f"{STANFORD}/test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
    "pathmnist.npz": _medmnist(
        "pathmnist",
        "a8b06965200029087d5bd730944a56c1",
        "81823f52dc622e69db2db4c72f8e8e617938dd6864d3c1f23d4e49724a28ea72",
    ),
    "octmnist.npz": _medmnist("octmnist", "c68d92d5b585d8d81f7112f81e2d0842"),
    "dermamnist.npz": _medmnist("dermamnist", "0744692d530f8e62ec473284d019b0c7"),
    "bloodmnist.npz": _medmnist("bloodmnist", "7053d0359d879ad8a5505303e11de1dc"),
    "tissuemnist.npz": _medmnist("tissuemnist", "ebe78ee8b05294063de985d821c1c34b"),
    "organamnist.npz": _medmnist("organamnist", "68e3f8846a6bd62f0c9bf841c0d9eacc"),
    "organcmnist.npz": _medmnist("organcmnist", "b9ceb9546e10131b32923c5bbeaea2b1"),
    "organsmnist.npz": _medmnist("organsmnist", "9ab87b696fb54e2a387ebe992d6ed5f1"),
    "retinamnist.npz": _medmnist("retinamnist", "bd4c0672f1bba3e3a89f0e4e876791e4"),
    "pneumoniamnist.npz": _medmnist(
        "pneumoniamnist",
        "28209eda62fecd6e6a2d98b1501bb15f",
        "e1792d3f03751cb101e99f19a63b3c1941436c988665f47853417b05be250cd8",
    ),
    "breastmnist.npz": _medmnist("breastmnist", "750601b1f35ba3300ea97c75c52ff8f6"),
}
