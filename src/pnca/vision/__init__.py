"""Features of images from a frozen, pretrained network, computed once and cached.

A hundred labels are too few to train a network on photographs or X-rays, but enough for a classifier on
the features of a pretrained one.
"""

from pnca.vision.backbones import load_backbone
from pnca.vision.base import Backbone
from pnca.vision.features import image_features
from pnca.vision.images import EQUALISED_CROP, IMAGENET_CROP, Preprocessing, read_image, read_pixels

__all__ = [
    "EQUALISED_CROP",
    "IMAGENET_CROP",
    "Backbone",
    "Preprocessing",
    "image_features",
    "load_backbone",
    "read_image",
    "read_pixels",
]
