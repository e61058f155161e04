import math

import keras
from keras import ops

DECAYS = ("cosine", "inverse_sqrt", "constant")


@keras.saving.register_keras_serializable("zoo")
class Warmup(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate that rises in a line to its peak, and falls from there.

    With t the steps taken, w = warmup_steps and T = total_steps, it is peak * (t + 1) / w while
    t < w, and then:

        cosine        peak * (1 + cos(pi * (t - w) / (T - w))) / 2
        inverse_sqrt  peak * sqrt(w / t)   (Vaswani et al. 2017)
        constant      peak

    Arguments:
        peak: float.
        warmup_steps: int.
        decay: "cosine", "inverse_sqrt" or "constant".
        total_steps: int, where a cosine reaches zero.

    Example:

    ```python
    from zoo.training.warmup import Warmup

    schedule = Warmup(1e-3, warmup_steps=100, decay="inverse_sqrt")
    assert abs(float(schedule(49)) - 5e-4) < 1e-9 and abs(float(schedule(400)) - 5e-4) < 1e-9
    ```
    """

    def __init__(self, peak, warmup_steps, decay="constant", total_steps=None):
        super().__init__()
        if decay not in DECAYS:
            raise ValueError(f"`decay` must be one of {DECAYS}. Received: decay={decay!r}")
        if decay == "cosine" and total_steps is None:
            raise ValueError("decay='cosine' needs `total_steps`. Received: total_steps=None")
        self.peak = peak
        self.warmup_steps = warmup_steps
        self.decay = decay
        self.total_steps = total_steps

    def __call__(self, step):
        step = ops.cast(step, "float32")
        warmup = float(max(self.warmup_steps, 1))
        rise = (step + 1) / warmup
        if self.decay == "cosine":
            way = (step - self.warmup_steps) / max(self.total_steps - self.warmup_steps, 1)
            fall = (1 + ops.cos(math.pi * ops.clip(way, 0.0, 1.0))) / 2
        elif self.decay == "inverse_sqrt":
            fall = ops.sqrt(warmup / ops.maximum(step, warmup))
        else:
            fall = 1.0
        return self.peak * ops.where(step < self.warmup_steps, rise, fall)

    def get_config(self):
        return {
            "peak": self.peak,
            "warmup_steps": self.warmup_steps,
            "decay": self.decay,
            "total_steps": self.total_steps,
        }
