import keras
from keras import ops
from keras.optimizers import schedules

from zoo.layers import checks
from zoo.layers.chance import draw_index


class ScheduledSampling(keras.layers.Layer):
    """Decides in training which tokens a decoder sees: given ones, or its own (Bengio et al. 2015).

    Arguments:
        probability: float, of a token to be the decoder's own; or a schedule of
            `keras.optimizers.schedules`, a function of the training steps.
    """

    def __init__(self, probability, **kwargs):
        super().__init__(**kwargs)
        self.schedule = probability
        self.seed_generator = keras.random.SeedGenerator()

    def build(self):
        if not isinstance(self.schedule, float):
            self.iterations = self.add_weight(
                shape=(),
                initializer="zeros",
                dtype="int32",
                trainable=False,
                aggregation="only_first_replica",
                name="iterations",
            )
        self.built = True

    def next_probability(self):
        """That of this training step, which is counted."""
        if isinstance(self.schedule, float):
            return self.schedule
        probability = self.schedule(ops.convert_to_tensor(self.iterations))
        self.iterations.assign_add(1)
        return ops.cast(probability, "float32")

    def chances(self, batch, time):
        """For each token two numbers, uniform in [0, 1): (batch, time, 2)."""
        return keras.random.uniform((batch, time, 2), dtype="float32", seed=self.seed_generator)

    def choose(self, given, own, chances, probability):
        """given and own (batch, 1) int32, chances (batch, 2)."""
        return ops.where(chances[:, :1] < probability, own, given)

    def draw(self, logits, chances):
        """The decoder's own next tokens (batch, 1), from logits (batch, 1, vocabulary)."""
        return draw_index(ops.softmax(ops.cast(logits, "float32"), axis=-1), chances[:, 1:])


def check_probability(probability):
    """A float, or a schedule; also from what `serialize` made of one."""
    if isinstance(probability, dict):
        probability = schedules.deserialize(probability)
    if isinstance(probability, schedules.LearningRateSchedule):
        return probability
    return checks.number(
        "sampling_probability",
        probability,
        "in [0, 1], or a schedule of keras.optimizers.schedules",
        lambda x: 0 <= x <= 1,
    )


def serialize(probability):
    return probability if isinstance(probability, float) else schedules.serialize(probability)
