"""Whether TF Serving will load a SavedModel and run it."""

from zoo.serving.check.check import check_saved_model
