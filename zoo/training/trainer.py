import contextlib
import math

import keras
import tensorflow as tf

from zoo.layers.products import has_gpu
from zoo.layers.scheduled_sampling import ScheduledSampling
from zoo.training import devices as training_devices
from zoo.training.adam import Adam
from zoo.training.token_crossentropy import disagreement, token_losses
from zoo.training.warmup import Warmup

PAIRS = dict.fromkeys(["source", "target"], tf.TensorSpec((None, None), tf.int32))  # (rows, width)
LARGEST_SCALE = 2.0**15
GROWS_AFTER = 1000  # good steps


class Trainer:
    """One step of training, on however many replicas there are, in however many pieces.

    Losses are summed and divided by the tokens of the whole batch, and gradients are clipped after
    they are added up: how many replicas, pieces or cores share a batch changes nothing but the
    draws of dropout. A step whose loss or gradient is no number changes no weight.

    Arguments:
        model: a built `Seq2Seq`.
        settings: a `Settings`.
        total_steps: int, the steps of the whole training.
        optimizer: a `keras.optimizers.Optimizer` with `update_step`; by default `Adam`.
        spec: dict of tf.TensorSpec, of a batch: its target, and all else that the model and the
            losses read.
        attention_losses: list of `AttentionLoss`, which are added to the loss.
    """

    def __init__(
        self, model, settings, total_steps, optimizer=None, spec=PAIRS, attention_losses=()
    ):
        self.model = model
        self.attention_losses = list(attention_losses)
        self.settings = settings
        self.devices = training_devices.current()
        self.strategy = self.devices.strategy
        # A replica takes its rows in as many turns as its memory needs.
        share = settings.update_tokens / self.devices.replicas
        self.turns = max(1, math.ceil(share / settings.batch_tokens))
        self.parts = _parts(self.strategy, settings, model)
        # Scheduled sampling counts the times that it is called.
        self.counts = [
            layer.iterations for layer in _samplings(model) if hasattr(layer, "iterations")
        ]
        self.schedule = Warmup(
            settings.learning_rate, settings.warmup_steps, settings.decay, total_steps
        )
        with self.strategy.scope():
            # 0.98: what Transformers and short trainings both like (Vaswani et al. 2017)
            self.optimizer = optimizer or Adam(self.schedule, beta_2=0.98)
            self.optimizer.build(model.trainable_variables)
            # Of steps that were no numbers, and of others, one after the other up to now.
            self.bad_steps = _number(0, "int32")
            self.good_steps = _number(0, "int32")
            # Of the loss, so that small gradients are no zeros in float16.
            scales = settings.mixed_precision == "float16"
            self.scale = _number(LARGEST_SCALE if scales else 1.0, "float32")
        self._step = tf.function(
            self._step, input_signature=[spec, tf.TensorSpec((), tf.float32)], autograph=False
        )
        if settings.jit:  # compiled for each shape of batch; what is around it has all shapes
            self._gradients = tf.function(self._gradients, autograph=False, jit_compile=True)

    def step(self, batch, stop=False):
        """Updates the weights by a batch, which every worker has whole.

        Arguments:
            batch: dict of source (rows, ...), 0 where there is nothing, target (rows, width), and
                other such columns.
            stop: bool, whether this worker wants to end the training.

        Returns the summed loss and the number of tokens, of all replicas, how many steps up to this
        one were no numbers, and how many workers want to end: tensors, for which nothing waits.
        """
        return self._step(batch, float(stop))

    def _step(self, batch, stop):
        pieces = self.devices.replicas * self.turns
        missing = -tf.shape(batch["target"])[0] % pieces  # empty rows, which count for nothing
        batch = {name: _with_rows(values, missing) for name, values in batch.items()}
        stop = stop / (self.devices.replicas // self.devices.workers)
        results = self.strategy.run(self._replica_step, args=(batch, stop))
        gradients, *numbers = results
        total, tokens, norm, stops = (
            self.strategy.experimental_local_results(number)[0] for number in numbers
        )
        is_good = tf.math.is_finite(total) & tf.math.is_finite(norm)
        tf.cond(is_good, lambda: self._update(gradients), self._skip)
        zero = tf.zeros(())
        total, tokens = (tf.where(is_good, number, zero) for number in (total, tokens))
        return total, tokens, tf.identity(self.bad_steps.value), stops

    def _replica_step(self, batch, stop):
        """The gradients of the whole batch, after every replica has seen its rows."""
        context = tf.distribute.get_replica_context()
        count = self.devices.replicas
        # Every so-many-th row, so that all replicas have alike ones.
        mine = {
            name: tf.gather(_in_turns(values, count), context.replica_id_in_sync_group, axis=1)
            for name, values in batch.items()
        }
        all_tokens = tf.math.count_nonzero(batch["target"][:, 1:], dtype=tf.float32)
        share = self.scale.value / tf.maximum(all_tokens, 1.0)
        gradients, total = self._gradients(mine, share)
        if count > 1:
            numbers = [*gradients, total, tf.identity(stop)]  # on this replica, all of them
            *gradients, total, stop = context.all_reduce("sum", numbers)
        gradients = [gradient / self.scale.value for gradient in gradients]
        gradients, norm = tf.clip_by_global_norm(gradients, self.settings.clip_norm)
        return gradients, total, all_tokens, norm, stop

    def _gradients(self, batch, share):
        """Of the summed loss times a share, turn by turn; and the sum."""
        if self.turns == 1:
            return self._gradients_of(batch, share)

        counts = [tf.identity(count.value) for count in self.counts]

        def turn(i, gradients, total):
            for count, before in zip(self.counts, counts, strict=True):
                count.assign(before)  # all turns are one step
            rows = {name: _in_turns(values, self.turns)[:, i] for name, values in batch.items()}
            more, loss = self._gradients_of(rows, share)
            return i + 1, [a + b for a, b in zip(gradients, more, strict=True)], total + loss

        zeros = [tf.zeros(variable.shape) for variable in self.model.trainable_variables]
        _, gradients, total = tf.while_loop(
            lambda i, *_: i < self.turns,
            turn,
            (tf.constant(0), zeros, tf.zeros(())),
            parallel_iterations=1,
        )
        return gradients, total

    def _gradients_of(self, batch, share):
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            # Part i has every so-many-th row, so that all parts are alike.
            slices = [slice(i, None, self.parts) for i in range(self.parts)]
            parts = [{name: ids[s] for name, ids in batch.items()} for s in slices]
            total = tf.add_n([self._loss(part) for part in parts])
            loss = total * share
        gradients = tape.gradient(
            loss,
            [variable.value for variable in variables],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        return [tf.convert_to_tensor(gradient) for gradient in gradients], total

    def _loss(self, batch):
        """Summed over the tokens of the targets (rows, width) that follow the first."""
        readings = 2 if self.settings.consistency else 1
        if readings > 1:  # as examples of their own, each with its own dropout
            batch = {name: tf.concat([ids, ids], axis=0) for name, ids in batch.items()}
        inputs = {**batch, "target": batch["target"][:, :-1]}
        labels = tf.reshape(batch["target"][:, 1:], (1, -1))
        rows = tf.range(tf.size(labels))
        if not self.settings.jit:  # XLA wants to know how many there are
            rows = tf.cast(tf.where(labels[0] != 0)[:, 0], tf.int32)
        weights = None
        if self.attention_losses:
            logits, weights = self.model.logits_at(rows, inputs, True, return_attention_scores=True)
        else:
            logits = self.model.logits_at(rows, inputs, training=True)
        labels = tf.gather(labels, rows, axis=1)
        # expanded, as the gradient of a slice is written to a copy of all logits
        every = tf.expand_dims(logits, 0)
        losses, mask = token_losses(labels, every, self.settings.label_smoothing)
        total = tf.reduce_sum(losses) / readings
        if readings > 1:
            apart = disagreement(*tf.split(logits, 2)) * tf.split(mask[0], 2)[0]
            total += self.settings.consistency * tf.reduce_sum(apart)
        for loss in self.attention_losses:
            total += loss.weight * loss(weights, batch) / readings
        return total

    def _update(self, gradients):
        """Each replica's weights by the gradients, which are the same on all."""
        rate = self.schedule(self.optimizer.iterations)

        def update(variable, gradient):
            self.optimizer.update_step(gradient, variable, rate)

        variables = [variable.value for variable in self.model.trainable_variables]
        for variable, gradient in zip(variables, gradients, strict=True):
            self.strategy.extended.update(variable, update, args=(gradient,), group=False)
        self.optimizer.iterations.assign_add(1)
        self.bad_steps.assign(0)
        if self.settings.mixed_precision == "float16":
            self.good_steps.assign_add(1)
            grows = self.good_steps.value % GROWS_AFTER == 0
            larger = tf.minimum(2 * self.scale.value, LARGEST_SCALE)
            self.scale.assign(tf.where(grows, larger, self.scale.value))
        return True

    def _skip(self):
        # A loss that was only scaled too far is nothing to worry about, as long as it can be less.
        self.bad_steps.assign_add(tf.cast(self.scale.value <= 1.0, tf.int32))
        self.scale.assign(tf.maximum(self.scale.value / 2, 1.0))
        self.good_steps.assign(0)
        return True

    @property
    def learning_rate(self):
        """That of the next step."""
        return float(self.schedule(self.optimizer.iterations))

    @property
    def variables(self):
        """All that a later step depends on: weights, states of dropout, the optimizer's moments."""
        scaling = [self.scale, self.good_steps, self.bad_steps]
        return [*self.model.variables, *self.optimizer.variables, *scaling]


def _with_rows(values, count):
    """The rows of a batch (rows, ...), and so many empty ones."""
    return tf.pad(values, ((0, count), *[(0, 0)] * (values.shape.rank - 1)))


def _in_turns(values, count):
    """Rows (rows, ...) dealt out, (rows / count, count, ...)."""
    sizes = zip(values.shape[1:], tf.unstack(tf.shape(values))[1:], strict=True)
    sizes = [size if known is None else known for known, size in sizes]
    return tf.reshape(values, (-1, count, *sizes))


def _number(value, dtype):
    return keras.Variable(value, dtype=dtype, trainable=False)


def use_all_cores():
    """Has TensorFlow work on one operation a core, each on one thread, as `Trainer` likes it best.

    It has to be said before TensorFlow does anything; then it is too late, and nothing happens.
    """
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(training_devices.cores())


def _parts(strategy, settings, model):
    """How many parts of a batch are worked on side by side: one for each core.

    The steps of a loop over time are too small to be shared by cores; where an operation has one
    thread, each core takes a part of the batch instead. (On two cores, 256 units, 64 sentences as
    long as Multi30k's, a step takes 100 instead of 129 ms for Bahdanau's GRU, 111 instead of 144
    for Luong's LSTM, 111 instead of 129 for a Transformer of three layers.)
    """
    threads = tf.config.threading
    if strategy.num_replicas_in_sync > 1 or settings.jit or has_gpu() or _samplings(model):
        return 1
    if threads.get_intra_op_parallelism_threads() != 1:
        return 1
    return min(threads.get_inter_op_parallelism_threads() or training_devices.cores(), 8)


def _samplings(model):
    layers = model._flatten_layers()  # private in Keras, and the only way to find them all
    return [layer for layer in layers if isinstance(layer, ScheduledSampling)]
