"""Heads: what classifies the instances of bags from their features, ``head(features, bag_ids)``."""

from .additive import Additive
from .additive_transmil import AdditiveTransMIL
from .attention import Attention
from .base import Head, InstanceHead
from .feature_pool import FeaturePool

__all__ = ["Additive", "AdditiveTransMIL", "Attention", "FeaturePool", "Head", "InstanceHead"]
