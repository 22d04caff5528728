"""Arrays and scikit-learn: choose settings by cross-validation over bags, then classify single rows.

    python examples/sklearn_arrays.py

X holds one handwritten digit a row (64 pixels as a vector), `groups` the bag of each row, y the bag's label on
each of its rows: the digit that most of the bag's rows show. No row's own digit is known to the training.
"""

import numpy as np
import sklearn
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, GroupKFold

from majority import MajorityLabelClassifier, bag_accuracy, make_bags

pixels, digits = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(pixels))
known, fresh = order[:1300], order[1300:]  # rows to make bags of, rows to classify at the end
bags = make_bags(
    pixels, digits, range(10), n_bags=120, size=12, positions=known, scenario=(0.4, 0.7), rng=np.random.default_rng(0)
)
X, y, groups = bags.instances(), np.repeat(bags.labels, bags.sizes), bags.ids

# Without this, GridSearchCV would split by groups but not pass them on to `fit`.
with sklearn.config_context(enable_metadata_routing=True):
    search = GridSearchCV(
        MajorityLabelClassifier(random_state=0),
        {"method": ["log-mean", "naive"]},
        scoring=bag_accuracy,
        cv=GroupKFold(3),
    )
    search.fit(X, y, groups=groups)

for setting, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
    print(f"{setting['method']:>9}: bag accuracy {score:.1%}")

# Here, and here only, digits of single rows are looked at.
right = (search.predict(pixels[fresh]) == digits[fresh]).mean()
print(f"single digits right: {right:.1%}")
