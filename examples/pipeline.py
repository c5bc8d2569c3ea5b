"""
A pipeline and a grid search
============================

Every model is a scikit-learn estimator, and a table with text and missing values is taken
as it comes. What must be learnt from the training rows only, such as a selection of
columns, belongs in a pipeline, so that no fold learns from what it is tested on.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer

import pnca
from pnca import PNCAClassifier

rng = np.random.RandomState(0)
table = pd.DataFrame({"hardness": rng.normal(5, 1, 90), "density": rng.normal(3, 1, 90)})
table["supplier"] = rng.choice(["north", "south", "west"], 90)
strain = table["hardness"] + 2 * (table["supplier"] == "north") + rng.normal(0, 0.3, 90)
labels = np.where(strain > 6, "brittle", "tough")
table.loc[rng.choice(90, 12), "density"] = np.nan

# %%
# Experts can be searched for, too, though the pool weighs them. Numbers are made symmetric.

columns = make_column_transformer(
    (PowerTransformer(), make_column_selector(dtype_include="number")),
    remainder="passthrough",
).set_output(transform="pandas")
small = {"n_particles": 4, "hidden_layer_sizes": (50,), "max_epochs": 30}  # to be quick
search = GridSearchCV(
    make_pipeline(columns, PNCAClassifier(**small, random_state=0)),
    {"pncaclassifier__experts": ["auto", ("linear",), ()]},
    scoring="neg_log_loss",
    cv=3,
).fit(table, labels)
results = search.cv_results_
for settings, score in zip(results["params"], results["mean_test_score"], strict=True):
    print(settings, f"mean negative log-likelihood {-score:.3f}")

# %%
# ``pnca.evidence`` and the like ask the last step. With several rows of one specimen,
# scikit-learn brings ``groups`` to the splitter and to every fit of a search:
# ``sklearn.set_config(enable_metadata_routing=True)``, then ``cv=GroupKFold(3)``,
# ``PNCAClassifier().set_fit_request(groups=True)``, and ``search.fit(X, y, groups=g)``.

print("evidence", pnca.evidence(search, table[:3]).round(2))

brittle = search.predict_proba(table)[:, list(search.classes_).index("brittle")]
figure, axes = plt.subplots(figsize=(5, 2.8), layout="constrained")
for supplier, rows in table.groupby("supplier"):
    axes.scatter(rows["hardness"], brittle[rows.index], s=12, label=supplier)
axes.set(xlabel="hardness", ylabel="probability of brittle")
axes.legend()
