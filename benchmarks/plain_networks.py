"""The plain program that the pool is measured against: torch's DataLoader and Adam, one network after the other."""

import torch
from torch import Tensor, nn

from limbeck.models.networks import cnn


def train(x: Tensor, y: Tensor, epochs: int, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    network = cnn((1, 28, 28), 10)
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=32, shuffle=True)
    for _ in range(epochs):
        for rows, labels in batches:
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(rows), labels).backward()
            optimizer.step()
    return network
