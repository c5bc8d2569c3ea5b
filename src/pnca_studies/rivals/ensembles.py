"""A deep ensemble whose dropout suits the data."""

from __future__ import annotations

from collections.abc import Sequence

from pnca.estimators import EnsembleClassifier
from pnca_studies.rivals.tuning import TunedClassifier

#: Networks, as Lakshminarayanan et al. (2017) recommend.
_N_MEMBERS = 5
_DROPOUT = (0.2, 0.0, 0.5)
_N_FOLDS = 3


def tuned_ensemble(
    random_state: int,
    *,
    hidden_layer_sizes: Sequence[int],
    max_epochs: int,
    augmentation: float = 0.0,
    device: str = "cpu",
) -> TunedClassifier:
    """Build a deep ensemble; its dropout is selected by log loss out of three folds."""
    ensemble = EnsembleClassifier(
        n_particles=_N_MEMBERS,
        hidden_layer_sizes=tuple(hidden_layer_sizes),
        max_epochs=max_epochs,
        augmentation=augmentation,
        device=device,
        random_state=random_state,
    )
    return TunedClassifier(ensemble, {"dropout": _DROPOUT}, n_folds=_N_FOLDS, random_state=random_state)
