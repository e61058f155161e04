"""Trained models as text in, text out: in Python, as SavedModels, and on TF Serving."""

from zoo.serving.catalogue import markdown_table
from zoo.serving.check import check_saved_model
from zoo.serving.client import Client, connect
from zoo.serving.export import export
from zoo.serving.language_model_pipeline import LanguageModelPipeline
from zoo.serving.offline import predict_lines
from zoo.serving.pipeline import Pipeline
from zoo.serving.sampled import Sampled
from zoo.serving.saved_model import SavedModel, load
