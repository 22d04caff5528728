"""A loss of majority in a plain PyTorch loop: a classifier of single digits from bags that only have majority labels.

python examples/own_loop.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader

from majority import BagDataset, collate_bags, load_source
from majority.losses import CountLoss

torch.manual_seed(0)
train, _, test = load_source("digits").make_parts(scenario="large")
net = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, len(train.classes)))
loader = DataLoader(BagDataset(train), batch_size=16, shuffle=True, collate_fn=collate_bags)
loss_fn, optimizer = CountLoss(), torch.optim.AdamW(net.parameters(), lr=3e-3)
for _ in range(50):
    for batch in loader:
        loss = loss_fn(net(batch.instances), batch.bag_ids, batch.labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

instances = torch.cat([item.instances for item in BagDataset(test)])
right = net(instances).argmax(dim=1) == torch.from_numpy(test.instance_labels)
print(f"instance accuracy {right.float().mean():.3f}")
