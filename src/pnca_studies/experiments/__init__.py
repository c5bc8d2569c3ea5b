"""Studies: which models are trained on what, and what is measured."""
