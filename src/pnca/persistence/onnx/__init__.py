"""Fitted classifiers as ONNX graphs: the formulas of ``maths`` once more, as operations of the standard.

All is float64, as in predictions; onnxruntime has every operation used here in that type on a CPU. Functions
have the names of those in ``maths`` and ``models`` that they repeat.
"""
