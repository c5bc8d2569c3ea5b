"""
Any PyTorch module
==================

``module`` replaces the layers: a callable that builds an ``nn.Module`` from inputs
``(n, ...)`` to vectors ``(n, d)``. Each particle gets weights of its own. Normalise with
``nn.GroupNorm`` or ``nn.LayerNorm``: batch normalisation is taken only with statistics of
earlier training, which stay as they are.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from torch import nn

from pnca import PNCAClassifier

images, y = load_digits().images, load_digits().target
images = (images[:, None] / 16).astype(np.float32)  # a module's inputs are not scaled
train, new, y_train, y_new = train_test_split(images, y, train_size=200, random_state=0)


def convolutions() -> nn.Module:
    """Embed an image of 8 x 8 pixels in ten dimensions."""
    return nn.Sequential(
        nn.Conv2d(1, 8, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * 4 * 4, 10),
    )


small = {"n_particles": 4, "n_folds": 3, "max_epochs": 60}  # to be quick
model = PNCAClassifier(module=convolutions, **small, random_state=0).fit(train, y_train)
accuracy = model.score(new, y_new)
embeddings = model.embed(new[:500])
print(f"accuracy {accuracy:.3f}; embeddings {embeddings.shape}: particles, images, d")

# %%
# New images as the first particle embeds them, in their two main directions.

points = PCA(n_components=2).fit_transform(embeddings[0])
figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
dots = axes.scatter(*points.T, c=y_new[:500], cmap="tab10", s=8)
figure.colorbar(dots, ticks=range(10), label="digit")
