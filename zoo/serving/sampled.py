from zoo.serving.saved_model import identity, load
from zoo.serving.strings import to_bytes


class Sampled:
    """A SavedModel that draws its answers at random, asked as a `SavedModel` is.

    The signatures of a SavedModel answer the same to the same; what draws is its Keras side.

    Arguments:
        path: saved_models/NAME, which means its newest version, or a version's folder.
        num_results: int, answers to each text.
        **options: arguments of `SamplingDecoder`, such as temperature, top_k, top_p and seed.

    Example:

    ```python
    from zoo.serving import Sampled

    model = Sampled("saved_models/pronounce_en", num_results=3, temperature=0.7, seed=1)
    print(model("serving_default", text=["schadenfreude"])["texts"])
    ```
    """

    def __init__(self, path, num_results=1, **options):
        self.pipeline = load(path)
        self.search = self.pipeline.make_sampling(num_results=num_results, **options)
        self.path, self.name, self.fingerprint = identity(path)
        self.num_results = num_results
        self.input_name = self.pipeline.input_name

    def __call__(self, signature, **columns):
        """Answers to one batch, lists of strings, as a dict of numpy arrays."""
        if signature != "serving_default":
            raise ValueError(
                f"What draws has the signature serving_default alone. Received: {signature}"
            )
        sources = to_bytes(columns[self.input_name])
        answer = self.pipeline(sources, batch_size=max(len(sources), 1), search=self.search)
        return {name: tensor.numpy() for name, tensor in answer.items()}
