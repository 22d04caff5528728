"""Losses of bag labels for any network and any loop: ``loss_fn(logits, bag_ids, labels)``.

The pure functions behind them are in `majority.losses.functional`.
"""

from .adjusted import AdjustedMeanLoss
from .base import BagLoss, BagOutput
from .counting import CountLoss, CountOnlyLoss, LogMeanLoss, SoftCountLoss
from .functional import bag_log_probs, count_classes
from .mean import NaiveLoss, OutputMeanLoss, ProportionLoss
from .vote import VoteLoss
from .voting import VotingLoss

__all__ = [
    "AdjustedMeanLoss",
    "BagLoss",
    "BagOutput",
    "CountLoss",
    "CountOnlyLoss",
    "LogMeanLoss",
    "NaiveLoss",
    "OutputMeanLoss",
    "ProportionLoss",
    "SoftCountLoss",
    "VoteLoss",
    "VotingLoss",
    "bag_log_probs",
    "count_classes",
]
