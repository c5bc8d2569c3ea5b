"""
Your own arrays
===============

Train on a hundred rows, predict, and find the rows on which the model should not be
trusted.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from pnca import PNCAClassifier

X, y = load_breast_cancer(return_X_y=True)
X_train, X_new, y_train, y_new = train_test_split(X, y, train_size=100, random_state=0)

small = {"n_particles": 4, "hidden_layer_sizes": (50,), "max_epochs": 100}  # to be quick
model = PNCAClassifier(**small, random_state=0).fit(X_train, y_train)
accuracy = model.score(X_new, y_new)
print(f"accuracy {accuracy:.3f} on {len(y_new)} new rows")

# %%
# *Evidence* is the logarithm of the kernel mass that an input receives from the training
# examples. The fit has also predicted its training rows, by particles that were not
# trained on them. If new rows are like the training rows, about k / (n + 1) of them have
# less evidence than the k-th smallest of these n values. With n = 100 the smallest is the
# 1 % threshold; it varies between fits.

threshold = np.sort(model.oof_evidence_)[0]

wrong_unit = X_new.copy()
wrong_unit[:, [3, 13, 23]] *= 100  # the areas
shuffle = np.random.RandomState(0).permutation
shuffled = np.stack([shuffle(column) for column in X_new.T], axis=1)
inputs = {"new rows": X_new, "wrong unit": wrong_unit, "shuffled columns": shuffled}
evidence = {name: model.evidence(rows) for name, rows in inputs.items()}
below = {name: np.mean(values < threshold) for name, values in evidence.items()}
for name, share in below.items():
    print(f"below the threshold: {share:.1%} of {name}")

figure, axes = plt.subplots(figsize=(6, 2.8), layout="constrained")
axes.hist([e.clip(-20) for e in evidence.values()], bins=40, label=list(evidence))
axes.axvline(threshold, color="black", linestyle="--", label="threshold")
axes.set(xlabel="evidence (at least -20)", ylabel="rows")
axes.legend()

# %%
# The wrong unit is found. Shuffled columns are not: most such rows lie about as near to
# the training rows as real ones do, and evidence only knows distances.
#
# Last, the training examples behind a prediction, and its uncertainty in nats.

rows, shares = model.neighbors(X_new[:1], k=3)
print("training rows", rows[0], "of class", y_train[rows[0]], "shares", shares[0].round(2))
total, aleatoric, epistemic = (part[0] for part in model.uncertainty(X_new[:1]))
print(f"total {total:.4f} = aleatoric {aleatoric:.4f} + epistemic {epistemic:.4f}")
