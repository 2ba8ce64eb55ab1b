"""The models of the tests, trained on tutti and on LightGBM's own sockets."""

import hashlib

import lightgbm
import numpy as np
from lightgbm.basic import LightGBMError  # noqa: F401

MODES = {
    "data": {"tree_learner": "data"},
    "voting": {"tree_learner": "voting", "top_k": 3},
    "quantized": {"tree_learner": "data", "use_quantized_grad": True, "stochastic_rounding": False},
}
PARAMS = {"objective": "regression", "num_leaves": 15, "min_data_in_leaf": 5, "lambda_l2": 1, "num_threads": 1,
          "deterministic": True, "force_col_wise": True, "verbosity": -1, "seed": 7, "min_data_in_bin": 1}
WIDE = 3_000  # columns of 240 bins and more: a histogram takes above 10 MiB


def rows(seed, columns=10):
    """Features of few values, so that bins do not depend on the rank that has these rows. Weights are of so different
    sizes that sums of gradients are rounded: they show the order in which ranks are added."""
    random = np.random.default_rng(seed)
    count = 300
    features = np.maximum(random.integers(-8, 16, (count, columns)), 0).astype(float)
    if columns == WIDE:
        features = random.normal(size=(count, columns))
    labels = features[:, 0] - features[:, 1] * features[:, 2] + random.normal(size=count)
    return features, labels, np.exp2(random.uniform(-25, 25, count))


def dataset(seed, columns=10):
    features, labels, weights = rows(seed, columns)
    return lightgbm.Dataset(features, labels, weight=weights, params=PARAMS)


def train(params, data, rounds=10, **more):
    return lightgbm.train({**PARAMS, **params}, data, rounds, **more)


def said(model):
    """A line: digests of the predictions and of the trees."""
    features = np.concatenate([rows(seed, model.num_feature())[0] for seed in (0, 1, 1000)])
    predictions = model.predict(features, num_threads=1)
    assert len(np.unique(predictions)) > 9 and np.isfinite(predictions).all(), "the model is no test"
    trees = model.model_to_string().partition("\nparameters:")[0]
    return " ".join(hashlib.sha256(part).hexdigest() for part in (predictions.tobytes(), trees.encode()))
