"""SavedModels under Apache Beam; its import needs apache-beam, the extra [beam]."""

from apache_beam.ml.inference.base import ModelHandler

from zoo.serving.offline import sources_of
from zoo.serving.saved_model import SavedModel


class SavedModelHandler(ModelHandler):
    """Runs serving_default of a SavedModel in a pipeline of Beam's RunInference.

    An element is a list of texts (of names of files, where it reads images), which are searched
    together: who knows which texts are of like
    length puts them together, and Beam does not batch again. Its prediction is the dict of numpy
    arrays that `SavedModel` gives. With keys, in a `KeyedModelHandler`.

    Arguments:
        path: saved_models/NAME, or a version's folder, where the workers find it.
    """

    def __init__(self, path):
        super().__init__(min_batch_size=1, max_batch_size=1)
        self.path = str(path)

    def load_model(self):
        return SavedModel(self.path)

    def run_inference(self, batch, model, inference_args=None):
        return [model("serving_default", **sources_of(model, texts)) for texts in batch]
