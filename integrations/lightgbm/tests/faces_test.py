"""scikit-learn's classes of LightGBM, and its cross-validation."""

from network_test import run

BEGIN = """
import hashlib
features, values, _ = rows(RANK)
classes = np.digitize(values, [-10, 10])  # every rank has each of them
some = rows(1000)[0]
SAME = {name: value for name, value in PARAMS.items() if name not in ("objective", "num_threads")} | {"n_jobs": 1, "n_estimators": 5}

def told(*arrays):
    say(" ".join(hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest() for array in arrays))

"""


def on_two(body, folder):
    first, second = run(BEGIN + body, 2, folder)
    return first.split(), second.split()


def test_classes_of_scikit_learn(tmp_path):
    first, second = on_two("""
with block() as given:
    classifier = lightgbm.LGBMClassifier(**SAME, **given).fit(features, classes)
    regressor = lightgbm.LGBMRegressor(**SAME, **given).fit(features, values)
    ranker = lightgbm.LGBMRanker(**SAME, **given).fit(features, classes, group=[100] * 3)
    plain = lightgbm.train({**PARAMS, **given}, lightgbm.Dataset(features, values), 5)
    alone = lightgbm.LGBMRegressor(**SAME)
    fails("num_machines is 1, but the network has 2", lambda: alone.fit(features, values))
alone.fit(features, values)
told(classifier.predict_proba(some), regressor.predict(some), ranker.predict(some), plain.predict(some), alone.predict(some))
assert classifier.predict_proba(some).shape == (300, 3)
""", tmp_path)
    assert first[:4] == second[:4] and len(set(first[:3])) == 3
    assert first[3] == first[1]  # lightgbm.train has the same model
    assert first[4] not in (second[4], first[1])


def test_other_classes_on_another_rank_are_an_error(tmp_path):
    """As many of them would be mixed up."""
    run(BEGIN + """
def fit(labels, **options):
    return lightgbm.LGBMClassifier(**SAME, **options).fit(features, labels)

with block() as given:
    names = np.array(["a", "b", "c"])[classes]
    for labels in (classes + RANK, np.minimum(classes, 2 - RANK), [f"{RANK}{name}" for name in names]):
        fails(f"rank {1 - RANK} has rows of other classes", lambda: fit(labels, **given))
    fit(classes.astype(float) if RANK else classes.tolist(), **given)
    assert fit(names, **given).classes_.tolist() == ["a", "b", "c"]
    if RANK == 0:
        fails("rank 1", lambda: fit(names, **given))  # which has left the block
fit(classes + RANK)     # alone
""", 2, tmp_path)


def test_cross_validation(tmp_path):
    """The models are the same on all ranks; each scores them on the rows that it has held back."""
    first, second = on_two("""
with block() as given:
    found = lightgbm.cv({**PARAMS, **given}, dataset(RANK), 5, nfold=3, stratified=False, return_cvbooster=True)
    for model in found["cvbooster"].boosters:
        said(model)
    told(*(model.predict(some) for model in found["cvbooster"].boosters), np.array(found["valid l2-mean"]))
""", tmp_path)
    assert first[:3] == second[:3] and len(set(first[:3])) == 3
    assert first[3] != second[3]


def test_a_cross_validation_that_stops_elsewhere_is_an_error(tmp_path):
    """Early stopping looks at each rank's own rows."""
    run(BEGIN + """
def stop(env):
    if env.iteration == 2 + 2 * RANK:
        raise lightgbm.callback.EarlyStopException(env.iteration, env.evaluation_result_list)

def validate():
    return lightgbm.cv({**PARAMS, **given}, dataset(RANK), 9, nfold=3, stratified=False, callbacks=[stop])

with block() as given:
    if RANK == 0:
        validate()
    else:
        fails("rank 0", validate)
""", 2, tmp_path)
