"""
Images
======

Images are passed as they are, ``(n, height, width)`` or with channels. In training they
are shifted, turned and resized a little at random.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, load_sample_image
from sklearn.model_selection import train_test_split

from pnca import PNCAClassifier

images, y = load_digits().images, load_digits().target
train, new, y_train, y_new = train_test_split(images, y, train_size=100, random_state=0)

small = {"n_particles": 4, "hidden_layer_sizes": (50,), "max_epochs": 100}  # to be quick
model = PNCAClassifier(**small, random_state=0)
model.fit(train, y_train)  # with augmentation=0 where position or direction matters
accuracy = model.score(new, y_new)
print(f"accuracy {accuracy:.3f} from {len(train)} images")
print("strength of augmentation, chosen out of fold:", model.augmentation_)

# %%
# Pieces of a photograph are no digits. They have the same size and the same grey values,
# and still the predictions stay close to the class shares.

photo = load_sample_image("china.jpg").mean(axis=2)[:400:8, :640:8]  # (50, 80)
corners = [(i, j) for i in range(0, 48, 8) for j in range(0, 80, 8)]
pieces = np.stack([photo[i : i + 8, j : j + 8] for i, j in corners]) / 16
confidence = {}
for name, X in (("digits", new), ("photograph", pieces)):
    confidence[name] = model.predict_proba(X).max(axis=1)
    median, high = np.median(confidence[name]), np.mean(confidence[name] > 0.9)
    print(f"{name}: median confidence {median:.2f}, above .9: {high:.1%}")

figure, axes = plt.subplots(2, 8, figsize=(8, 2.6), layout="constrained")
shown = np.concatenate([new[:8], pieces[::7][:8]])
sure = model.predict_proba(shown).max(axis=1)
for place, image, label, p in zip(
    axes.flat, shown, model.predict(shown), sure, strict=True
):
    place.imshow(image, cmap="gray_r", vmin=0, vmax=16)
    place.set_title(f"{label}: {p:.0%}", fontsize=9)
    place.set_axis_off()
