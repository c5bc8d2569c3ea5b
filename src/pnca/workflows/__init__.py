"""From files to files: fit a model on a user's own table, predict another one, and say what was promised.

The command line does nothing else but call these.
"""

from pnca.workflows.about import about_model
from pnca.workflows.fitting import fit_table
from pnca.workflows.predicting import PredictedFile, predict_table
from pnca.workflows.promises import Promises, promises_of

__all__ = ["PredictedFile", "Promises", "about_model", "fit_table", "predict_table", "promises_of"]
