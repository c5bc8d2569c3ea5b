"""Formulas as pure functions on tensors: no state, no files, no printing, no seeds."""
