"""Arrays and scikit-learn: choose a method by cross-validation over bags, then classify single rows.

    python examples/sklearn_arrays.py

Each row of X is one handwritten digit (64 pixels as a vector). `groups` has the bag of each row, and y the label of
that bag: its most common digit. Training does not see the digit of any single row.
"""

import numpy as np
import sklearn
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, GroupKFold

from majority import MajorityLabelClassifier, bag_accuracy, make_bags

pixels, digits = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(pixels))
known, fresh = order[:1300], order[1300:]  # rows for the bags, rows to classify at the end
bags = make_bags(
    pixels, digits, range(10), n_bags=120, size=12, positions=known, scenario=(0.4, 0.7), rng=np.random.default_rng(0)
)
X, y, groups = bags.instances(), np.repeat(bags.labels, bags.sizes), bags.ids

# Without metadata routing, GridSearchCV splits by groups but does not pass them to `fit`.
with sklearn.config_context(enable_metadata_routing=True):
    search = GridSearchCV(
        MajorityLabelClassifier(recipe="quick", epochs=15, random_state=0),
        {"method": ["log-mean", "naive"]},
        scoring=bag_accuracy,
        cv=GroupKFold(3),
    )
    search.fit(X, y, groups=groups)

for setting, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
    print(f"{setting['method']:>9}: bag accuracy {score:.1%}")

# The digits of single rows are used here only, for evaluation.
accuracy = (search.predict(pixels[fresh]) == digits[fresh]).mean()
print(f"instance accuracy {accuracy:.1%}")
