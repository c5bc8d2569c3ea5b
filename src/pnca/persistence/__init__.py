"""Fitted models as files: no pickle, nothing that is executed. ``model_file`` saves and loads."""
