import dataclasses
from typing import Literal

from zoo.address import is_address
from zoo.errors import UsageError


@dataclasses.dataclass(kw_only=True)
class Settings:
    """What every training can be told. A recipe's own config is a subclass.

    Example:

    ```python
    import dataclasses
    from zoo.training.settings import Settings

    @dataclasses.dataclass(kw_only=True)
    class Config(Settings):
        units: int = 256
        epochs: int = 30  # twice the default: the data is small

    assert Config(output="runs/mine", units=128).epochs == 30
    ```
    """

    output: str
    """Folder of the run. A run that is there goes on where it stopped."""
    init_from: str | None = None
    """SavedModel whose model and tokenizers the training starts from."""
    epochs: int = 20
    """Times through the data."""
    batch_tokens: int = 4096
    """Tokens that a device works on at once, on their longer side."""
    effective_batch_tokens: int | None = None
    """Tokens of an update, from all devices together and one after the other; by default as many
    as --batch-tokens, which several devices share."""
    num_buckets: int = 6
    """Different shapes of batches, at the most."""
    max_length: int = 100
    """Tokens of the longest example to train on; longer ones are counted and left out."""
    learning_rate: float = 1e-3
    """The highest, which the warm-up ends at."""
    warmup_steps: int = 500
    """Steps over which the learning rate rises from zero."""
    decay: Literal["cosine", "inverse_sqrt", "constant"] = "cosine"
    """How the learning rate falls afterwards; a cosine reaches zero with the last epoch."""
    clip_norm: float = 1.0
    """Longest gradient, over all weights together."""
    label_smoothing: float = 0.1
    """Probability that is spread over the vocabulary."""
    consistency: float = 0.0
    """How much it matters that two draws of dropout predict the same, 2.5 for example: each batch
    is read twice (R-Drop, Liang et al. 2021)."""
    average: int = 5
    """Last epochs whose weights are averaged; the mean is what is scored and exported."""
    patience: int = 0
    """Epochs without a better score after which the training stops; 0 is never."""
    strategy: Literal["auto", "cpu", "mirrored", "multiworker"] = "auto"
    """Where to train: on all GPUs of this machine (mirrored), on the machines that TF_CONFIG or
    Slurm tell of (multiworker), on the CPU; auto finds out."""
    mixed_precision: Literal["none", "bfloat16", "float16"] = "none"
    """Computes in half the bits and keeps weights, softmax and loss in float32."""
    jit: bool = False
    """Compiles the training step with XLA, once for each shape of batch."""
    save_minutes: float = 5.0
    """Minutes between checkpoints; there is one after each epoch anyway."""
    keep: int = 2
    """Checkpoints to keep: where the last one is damaged, the one before it serves."""
    data_service: str | None = None
    """HOST:PORT of a dispatcher whose workers make the batches (`zoo data-service`)."""
    seed: int = 1
    """Of weights, dropout and the order of examples."""
    deterministic: bool = False
    """The same command gives the same weights to the last bit; slower."""

    # Options of a recipe that are not its model's: what goes on from a model may have others.
    of_training = ()
    # Whether what was left out has been taken from what the training goes on from.
    is_complete = False

    @property
    def search(self):
        """The options of a search, if there are any; what goes on from a model may have others."""
        return {}

    def validate(self):
        """Raises an error at a value that no training can be done with."""
        for name in ("epochs", "batch_tokens", "num_buckets", "max_length", "average", "keep"):
            self.require(name, getattr(self, name) >= 1, "at least 1")
        for name in ("learning_rate", "clip_norm"):
            self.require(name, getattr(self, name) > 0, "above 0")
        for name in ("warmup_steps", "consistency", "patience", "save_minutes", "seed"):
            self.require(name, getattr(self, name) >= 0, "0 or more")
        is_right = self.data_service is None or is_address(self.data_service)
        self.require("data_service", is_right, "HOST:PORT")
        enough = self.effective_batch_tokens is None or self.effective_batch_tokens >= 1
        self.require("effective_batch_tokens", enough, "at least 1")
        self.require("label_smoothing", 0 <= self.label_smoothing < 1, "in [0, 1)")

    @property
    def update_tokens(self):
        """Tokens of an update."""
        return self.effective_batch_tokens or self.batch_tokens

    def require(self, name, is_right, wanted):
        """Raises an error unless the value is right; for `validate`."""
        if not is_right:
            raise UsageError(f"`{name}` must be {wanted}. Received: {name}={getattr(self, name)}")


@dataclasses.dataclass(kw_only=True)
class SearchSettings(Settings):
    """Those of a training whose model is scored, and exported, with a beam search."""

    beam_width: int = 5
    """Hypotheses of the search."""
    num_results: int | None = None
    """Answers that the SavedModel gives to each source; by default as many as --beam-width."""

    @property
    def search(self):
        return {"beam_width": self.beam_width, "num_results": self.num_results or self.beam_width}

    def validate(self):
        super().validate()
        self.require("beam_width", self.beam_width >= 1, "at least 1")
        is_right = self.num_results is None or 1 <= self.num_results <= self.beam_width
        self.require("num_results", is_right, f"1 to --beam-width, which is {self.beam_width}")


@dataclasses.dataclass(kw_only=True)
class GuidedSettings(Settings):
    """Those of a training that can be told where to look."""

    guided_alignment: str | None = None
    """File of links between the words of each pair that is trained on, a line each: 0-0 1-2 are
    positions from 0 in the source and the target, as fast_align and awesome-align write them."""
    guided_weight: float = 0.1
    """How much the attention's cross-entropy with these links matters, beside a token's."""

    def validate(self):
        super().validate()
        self.require("guided_weight", self.guided_weight > 0, "above 0")
