"""
Patients as groups
==================

Several examples of one patient are not independent. Name the patient in ``groups``: then
no example is predicted from another of the same patient, neither in training nor out of
fold.
"""

import matplotlib.pyplot as plt
import numpy as np

from pnca import PNCAClassifier

# %%
# Two hundred patients with four images each, described by ten features. The diagnosis
# shifts three of them; what makes a patient recognisable shifts all ten. The first sixty
# patients are the training data.

rng = np.random.RandomState(0)
patient = np.repeat(np.arange(200), 4)
diagnosis = np.repeat(rng.randint(2, size=200), 4)
X = rng.normal(size=(200, 10))[patient] + 0.2 * rng.normal(size=(800, 10))
X[:, :3] += 1.5 * diagnosis[:, None]
known = patient < 60

# %%
# ``oof_proba_`` has the probabilities of each training example from particles that did
# not see its fold. If a patient is split between folds, those particles know the patient,
# and the estimate is far too good.

small = {"n_particles": 4, "hidden_layer_sizes": (50,), "max_epochs": 60}  # to be quick
model = PNCAClassifier(**small, random_state=0)
accuracy = {}
for name, groups in (("without groups", None), ("with groups", patient[known])):
    model.fit(X[known], diagnosis[known], groups=groups)
    expected = np.mean(model.oof_proba_.argmax(axis=1) == diagnosis[known])
    accuracy[name] = [expected, model.score(X[~known], diagnosis[~known])]
    print(f"{name}: out of fold {expected:.2f}, on new patients {accuracy[name][1]:.2f}")

figure, axes = plt.subplots(figsize=(5, 2.6), layout="constrained")
for i, (name, values) in enumerate(accuracy.items()):
    axes.bar(np.arange(2) + 0.35 * i, values, width=0.3, label=name)
axes.set_xticks(np.arange(2) + 0.175, ["expected, out of fold", "on new patients"])
axes.set(ylabel="accuracy", ylim=(0.5, 1))
axes.legend(loc="upper right")
