"""A network of timm with a loss of majority: images of any size, in your own loop.

    pip install timm
    python examples/timm_backbone.py

`majority train SOURCE --backbone timm:resnet10t` uses the same networks without a line of code.
"""

import timm
import torch
from torch.utils.data import DataLoader

from majority import BagDataset, collate_bags, load_source
from majority.losses import CountLoss


def main(name: str = "resnet10t", epochs: int = 5) -> None:
    torch.manual_seed(0)
    train, _, test = load_source("digits").make_parts(scenario="large", bags=40)
    net = timm.create_model(name, pretrained=False, in_chans=train.store.shape[-1], num_classes=len(train.classes))
    loader = DataLoader(BagDataset(train), batch_size=4, shuffle=True, collate_fn=collate_bags)
    loss_fn, optimizer = CountLoss(), torch.optim.AdamW(net.parameters(), lr=1e-3)
    for epoch in range(epochs):
        for batch in loader:
            images = torch.nn.functional.interpolate(batch.instances, size=32)
            loss = loss_fn(net(images), batch.bag_ids, batch.labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print(f"epoch {epoch + 1}: loss {loss.item():.3f}")
    net.eval()
    with torch.inference_mode():
        images = torch.cat([item.instances for item in BagDataset(test)])
        predicted = net(torch.nn.functional.interpolate(images, size=32)).argmax(dim=1)
    right = predicted == torch.from_numpy(test.instance_labels)
    print(f"instance accuracy {right.float().mean():.3f}")


if __name__ == "__main__":
    main()
