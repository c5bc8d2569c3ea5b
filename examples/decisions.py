"""
From a table to decisions one can defend
========================================

A table as it comes from a clinic: numbers with holes, a column of text, and a column
of ids. The model answers what it is sure of, says why it leaves out the rest, and shows
the patients behind an answer.
"""

import tempfile

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import pnca

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
rng = np.random.RandomState(0)
table = X.mask(rng.uniform(size=X.shape) < 0.05)  # one number in twenty is missing
table["outline"] = np.where(X["mean concavity"] < 0.1, "smooth", "jagged")
table["patient"] = [f"P-{number:04d}" for number in rng.permutation(len(table))]
diagnosis = y.map({0: "malignant", 1: "benign"})
train, new, y_train, y_new = train_test_split(table, diagnosis, random_state=0)

# %%
# An id is nothing to learn from, since every new patient has a new one. It goes to
# ``ids``, by which examples are named. Holes and text need no preparation.

model = pnca.PNCAClassifier(random_state=0)
model.fit(train.drop(columns="patient"), y_train, ids=train["patient"])
X_new = new.set_index("patient")
decisions = model.decide(X_new, max_error=0.05)
error = np.mean((decisions.label != y_new)[decisions.is_answered])
print(f"{decisions.summary()}. Wrong were {error:.1%}.")
print(decisions.to_frame().head())

# %%
# Are there labels, rows or columns among the training examples that one should look at?

print(model.audit())

# %%
# A number in another unit: there is no answer, and the column is named.

(case,) = model.explain(X_new.iloc[[0]].assign(**{"mean radius": 135.0}), k=4)
print(case)
case.plot()

# %%
# The case as a page for the file, and the model as a file without pickle. It holds the
# patients, too, unless it is saved with ``store="predictive"``. The loaded model answers
# as before: what would it say without the patient who carries most of the answer?

with tempfile.TemporaryDirectory() as folder:
    case.to_html(f"{folder}/case.html")
    loaded = pnca.load(pnca.save(model, f"{folder}/biopsies.pnca"))
(usual,) = loaded.explain(X_new.iloc[[1]])
print(usual.without([usual.examples[0].id]))
