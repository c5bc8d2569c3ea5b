"""
A large data set
================

The exact kernel compares every pair of examples of a batch, and a prediction visits every
training example. ``kernel="positive"`` replaces it by positive random features: a class
is then one vector, a fit is linear in the number of examples, and the cost of a
prediction does not depend on it.
"""

import tempfile
import time

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

import pnca

X, y = make_classification(
    n_samples=20_000, n_informative=10, n_classes=4, class_sep=2.0, random_state=0
)
X_train, X_new, y_train, y_new = train_test_split(X, y, random_state=0)

# %%
# Within ``pnca.checkpoints`` the state of a fit is written every few epochs. If the script
# is killed, start it again: the fit goes on from the last file. The folder would be one of
# yours.

small = {"n_particles": 4, "hidden_layer_sizes": (50,), "n_folds": None}  # to be quick
accuracy, seconds = {}, {}
for n in (500, 1_500, 5_000, 15_000):
    model = pnca.PNCAClassifier(kernel="positive", max_epochs=3, **small, random_state=0)
    with tempfile.TemporaryDirectory() as folder, pnca.checkpoints(folder, every=1):
        model.fit(X_train[:n], y_train[:n])
    start = time.perf_counter()
    accuracy[n] = model.score(X_new, y_new)
    seconds[n] = time.perf_counter() - start
    print(f"{n:6,d} examples: accuracy {accuracy[n]:.3f}, ", end="")
    print(f"{len(y_new):,} predictions in {seconds[n]:.2f} s")
print("a class in all particles:", model.class_features_[:, 0].shape)

figure, axes = plt.subplots(figsize=(5, 2.6), layout="constrained")
axes.semilogx(list(accuracy), list(accuracy.values()), "o-")
axes.set(xlabel="training examples", ylabel="accuracy after 3 epochs")
