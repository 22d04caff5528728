"""Every method for one bag, written out in float64: what its head and its loss are compared with."""

import math

import torch
from scipy.special import log_ndtr

TEMPERATURES = {"count": (0.1, 0.1), "soft-count": (1.0, 0.1), "count-only": (0.1, None), "log-mean": (1.0, None)}


def of_one_bag(name, head, bag, label, truth=None, weights=None):
    """(size, d) features, the number of the label, classes and weights of the instances -> log-probabilities of the
    instances (size, C) and of the bag (C,), and the loss."""
    weights = torch.ones(len(bag), dtype=bag.dtype) if weights is None else weights * len(bag) / weights.sum()
    if name in POOLED:
        instances, bag_logits = POOLED[name](head, bag)
        bag_log_probs = bag_logits.log_softmax(dim=0)
        return instances.log_softmax(dim=1), bag_log_probs, -bag_log_probs[label]
    temperature, _ = TEMPERATURES.get(name, (1.0, None))
    instances = (linear(head.classifier, bag) / temperature).log_softmax(dim=1)
    bag_log_probs = winner_log_probs(name, head.loss, instances.exp(), weights)
    if name == "naive":
        loss = -(weights * instances[:, label]).mean()
    elif name == "supervised":
        loss = -instances[range(len(bag)), truth].mean()
    elif name == "proportion":
        loss = -sum(weight * bag_log_probs[c] for weight, c in zip(weights, truth, strict=True)) / len(bag)
    elif name == "output-mean":
        loss = -softmax(bag_log_probs.exp(), 0)[label].log()
    elif name == "vote":
        loss = -vote_scores(voters(head.loss, instances.exp()), weights)[place(head.loss, label)]
    else:
        loss = -bag_log_probs[label]
    return instances, bag_log_probs, loss


def voters(loss, columns):  # (n, C) -> without the background
    number = None if getattr(loss, "background", None) is None else loss.background.index
    return columns[:, [c for c in range(columns.shape[1]) if c != number]]


def place(loss, label):
    """The column of the label among those of the voters."""
    return label - (loss.background is not None and loss.background.index < label)


def winner_log_probs(name, loss, p, weights):
    votes, background = voters(loss, p), getattr(loss, "background", None)
    shares = (weights[:, None] * votes).sum(dim=0) / len(p)
    if background is not None:
        shares = shares + background.phantom / len(shares)
        shares = shares / shares.sum()
    _, temperature = TEMPERATURES.get(name, (1.0, None))
    if name == "output-mean":
        return shares.log_softmax(dim=0)
    if name == "vote":
        found = vote_scores(votes, weights).log_softmax(dim=0)
    elif name == "adjusted-mean":
        f = voters(loss, loss.label_shares[None])[0]
        f, share = f / f.sum(), loss.winner_share
        expected = share * f + (1 - share) * (1 - f) / (len(f) - 1)
        found = (shares * f / expected).log().log_softmax(dim=0)
    else:
        found = shares.log() if temperature is None else (shares / temperature).log_softmax(dim=0)
    if background is None:
        return found
    number = background.index
    return torch.cat([found[:number], torch.tensor([-math.inf]), found[number:]])


def vote_scores(p, weights):
    """Of each class, the sum over its rivals of log Phi(mean / standard deviation) of its lead."""
    scores = torch.zeros(p.shape[1], dtype=p.dtype)
    for y in range(p.shape[1]):
        for k in {*range(p.shape[1])} - {y}:
            lead = (weights * (p[:, y] - p[:, k])).sum().item()
            variance = (weights**2 * (p[:, y] + p[:, k] - (p[:, y] - p[:, k]) ** 2)).sum().item()
            scores[y] += log_ndtr(lead / math.sqrt(variance + 1e-6))
    return scores


# ---------------------------------------------------------------- heads that pool features: logits of instances and bag


def linear(layer, x):
    out = x @ layer.weight.T
    return out if layer.bias is None else out + layer.bias


def softmax(x, dim):
    return x.exp() / x.exp().sum(dim=dim, keepdim=True)


def pooled(pool):
    return lambda head, bag: (linear(head.classifier, bag), linear(head.classifier, pool(bag)))


def attention(head, bag):
    scores = torch.stack([linear(head.score[2], linear(head.score[0], row).tanh())[0] for row in bag])
    weights = softmax(scores, 0)
    return pooled(lambda bag: sum(weight * row for weight, row in zip(weights, bag, strict=True)))(head, bag)


def additive(head, bag):
    x = bag
    for first in (0, 3):
        x, norm = linear(head.score[first], x), head.score[first + 1]
        x = (x - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias
        x = torch.where(x > 0, x, 0.2 * x)
    x = softmax(linear(head.score[6], x), 0) * bag
    for layer in (head.classifier[0], head.classifier[2]):
        x = linear(layer, x).clamp(min=0)
    summands = linear(head.classifier[4], x)
    return summands, summands.sum(dim=0)


def layer_norm(norm, x):
    mean, variance = x.mean(dim=1, keepdim=True), x.var(dim=1, unbiased=False, keepdim=True)
    return (x - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias


def additive_transmil(head, bag):
    x = linear(head.embed[0], bag).clamp(min=0)  # (size, 512)
    for layer in head.layers:
        q, k, v = linear(layer.qkv, layer_norm(layer.norm, x)).split(512, dim=1)
        parts = [slice(64 * h, 64 * h + 64) for h in range(8)]
        heads = [softmax(q[:, part] @ k[:, part].T / 8, 1) @ v[:, part] for part in parts]
        x = x + linear(layer.out[0], torch.cat(heads, dim=1))
    norm, hidden, _, last = head.classifier
    summands = linear(last, linear(hidden, layer_norm(norm, x)).clamp(min=0))
    return summands, summands.sum(dim=0)


POOLED = {
    "feature-mean": pooled(lambda bag: bag.mean(dim=0)),
    "feature-max": pooled(lambda bag: torch.stack([max(column) for column in bag.T])),
    "feature-pnorm": pooled(lambda bag: (bag.clamp(min=0) ** 4).sum(dim=0) ** 0.25),
    "feature-lse": pooled(lambda bag: (4 * bag).exp().sum(dim=0).log()),
    "attention": attention,
    "additive": additive,
    "additive-transmil": additive_transmil,
}
