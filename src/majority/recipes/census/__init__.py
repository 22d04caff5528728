"""census: its settings and plan (`plan`), its stages (`stages`), their order (`recipe`), and what they need."""

from .plan import CensusSettings, plan, planned_epochs, settings_without_effect
from .recipe import train
from .stages import head_alone, head_on_discriminants, instance_probabilities, linear_model, train_head

__all__ = [
    "CensusSettings",
    "head_alone",
    "head_on_discriminants",
    "instance_probabilities",
    "linear_model",
    "plan",
    "planned_epochs",
    "settings_without_effect",
    "train",
    "train_head",
]
