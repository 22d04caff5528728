"""A loss of majority in PyTorch Lightning.

pip install lightning
python examples/lightning_loop.py
"""

from typing import Any

import lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from majority import BagDataset, Bags, collate_bags, load_source
from majority.data.dataset import BagBatch
from majority.losses import CountLoss, count_classes


class Digits(lightning.LightningModule):
    def __init__(self, classes: int):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, classes))
        self.loss_fn = CountLoss()

    def training_step(self, batch: BagBatch, _: int) -> Tensor:
        return self.loss_fn(self.net(batch.instances), batch.bag_ids, batch.labels)

    def validation_step(self, batch: BagBatch, _: int) -> None:
        counts = count_classes(self.net(batch.instances), batch.bag_ids, len(batch.labels))
        right = counts.argmax(dim=1) == batch.labels
        self.log("bag_accuracy", right.float().mean(), batch_size=len(batch.labels), prog_bar=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def loader(bags: Bags, **options: Any) -> "DataLoader[Any]":
    return DataLoader(BagDataset(bags), batch_size=16, collate_fn=collate_bags, **options)


def main(epochs: int = 30) -> None:
    lightning.seed_everything(0)
    train, val, test = load_source("digits").make_parts(scenario="large")
    model = Digits(len(train.classes))
    trainer = lightning.Trainer(max_epochs=epochs, logger=False, enable_checkpointing=False, accelerator="cpu")
    trainer.fit(model, loader(train, shuffle=True), loader(val))
    instances = torch.cat([item.instances for item in BagDataset(test)])
    with torch.inference_mode():
        right = model.net(instances).argmax(dim=1) == torch.from_numpy(test.instance_labels)
    print(f"instance accuracy {right.float().mean():.3f}")


if __name__ == "__main__":
    main()
