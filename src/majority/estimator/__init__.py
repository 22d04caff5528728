"""The scikit-learn estimator MajorityLabelClassifier, which takes bag ids as groups, and its scorer bag_accuracy."""

from .classifier import MajorityLabelClassifier
from .rows import bag_accuracy

__all__ = ["MajorityLabelClassifier", "bag_accuracy"]
