"""Which kinds of pipelines there are, as `zoo.text` knows its tokenizers."""

from zoo.serving.language_model_pipeline import LanguageModelPipeline
from zoo.serving.pipeline import Pipeline

CLASSES = {cls.__name__: cls for cls in (Pipeline, LanguageModelPipeline)}


def deserialize(config, dtype_policy="float32"):
    """The pipeline whose `get_config()` this is, its model with new weights."""
    cls = CLASSES[config.get("class", "Pipeline")]  # older ones do not say it
    return cls.from_config(config, dtype_policy)
