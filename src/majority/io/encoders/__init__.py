"""Encoders: pretrained networks from images to features. `embed` applies one to the images of a source."""

from .encoder import ENCODERS, Encoder, Network
from .network import open_network

__all__ = ["ENCODERS", "Encoder", "Network", "open_network"]
