"""Trained models as text in, text out: in Python, and as SavedModels for TF Serving."""

from zoo.serving.catalogue import markdown_table
from zoo.serving.check import check_saved_model
from zoo.serving.export import export
from zoo.serving.pipeline import Pipeline
from zoo.serving.saved_model import SavedModel, load
