"""Image data of the studies: labelled sets, the same sets shifted, and out-of-distribution sets."""

from pnca_studies.data.covid import (
    ActualmedImages,
    CovidFeatures,
    CovidImages,
    MuraImages,
    load_covid_features,
    read_actualmed,
    read_covid_chestxray,
    read_mura,
)
from pnca_studies.data.digits import ShiftExperiment, load_digits_experiment
from pnca_studies.data.letters import LETTERS, render_letters
from pnca_studies.data.mnist import Mnist, load_mnist
from pnca_studies.data.notmnist import NotMnist, load_notmnist
from pnca_studies.data.shifts import rotate

__all__ = [
    "LETTERS",
    "ActualmedImages",
    "CovidFeatures",
    "CovidImages",
    "Mnist",
    "MuraImages",
    "NotMnist",
    "ShiftExperiment",
    "load_covid_features",
    "load_digits_experiment",
    "load_mnist",
    "load_notmnist",
    "read_actualmed",
    "read_covid_chestxray",
    "read_mura",
    "render_letters",
    "rotate",
]
