import contextlib
import os

import tensorflow as tf

from zoo.layers.products import has_gpu
from zoo.layers.scheduled_sampling import ScheduledSampling
from zoo.training.adam import Adam
from zoo.training.token_crossentropy import disagreement, token_losses
from zoo.training.warmup import Warmup


class Trainer:
    """One step of training, on however many replicas the strategy has.

    Losses are summed and divided by the tokens of all replicas together, and gradients are clipped
    after they are added up: how many replicas or cores share a batch changes nothing but the draws
    of dropout.

    Arguments:
        model: a built `Seq2Seq`.
        settings: a `Settings`.
        total_steps: int, the steps of the whole training.
    """

    def __init__(self, model, settings, total_steps):
        self.model = model
        self.settings = settings
        self.strategy = tf.distribute.get_strategy()
        self.parts = _parts(self.strategy, settings, model)
        self.schedule = Warmup(
            settings.learning_rate, settings.warmup_steps, settings.decay, total_steps
        )
        with self.strategy.scope():
            # 0.98: what Transformers and short trainings both like (Vaswani et al. 2017)
            self.optimizer = Adam(self.schedule, beta_2=0.98)
            self.optimizer.build(model.trainable_variables)
        # XLA compiles the step for each shape of batch; without it, one graph takes all shapes.
        # (A batch that is spread over replicas is no tensor, and has no signature.)
        ids = tf.TensorSpec((None, None), tf.int32)
        self.step = tf.function(
            self._step,
            input_signature=[{"source": ids, "target": ids}]
            if self.strategy.num_replicas_in_sync == 1
            else None,
            autograph=False,
            jit_compile=settings.jit,
        )

    def _step(self, batch):
        """Updates the weights; gives the summed loss and the number of tokens, of all replicas."""
        sums = self.strategy.run(self._replica_step, args=(batch,))
        return [self.strategy.reduce("SUM", value, axis=None) for value in sums]

    def _replica_step(self, batch):
        replicas = tf.distribute.get_replica_context()
        inputs = {"source": batch["source"], "target": batch["target"][:, :-1]}
        labels = batch["target"][:, 1:]
        tokens = tf.math.count_nonzero(labels, dtype=tf.float32)
        all_tokens = replicas.all_reduce("sum", tokens)
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            # Part i has every so-many-th row, so that all parts are alike.
            slices = [slice(i, None, self.parts) for i in range(self.parts)]
            parts = [({k: v[s] for k, v in inputs.items()}, labels[s]) for s in slices]
            total = tf.add_n([self._loss(*part) for part in parts])
            loss = total / tf.maximum(all_tokens, 1.0)
        gradients = tape.gradient(
            loss,
            [variable.value for variable in variables],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]  # embeddings' too
        gradients = replicas.all_reduce("sum", gradients)
        gradients, _ = tf.clip_by_global_norm(gradients, self.settings.clip_norm)
        # The optimizer adds up what the replicas hand it: all hand it the same.
        share = 1.0 / self.strategy.num_replicas_in_sync
        self.optimizer.apply([gradient * share for gradient in gradients], variables)
        return total, tokens

    def _loss(self, inputs, labels):
        """Summed over the tokens of the labels (batch, time)."""
        readings = 2 if self.settings.consistency else 1
        if readings > 1:  # as examples of their own, each with its own dropout
            inputs = {name: tf.concat([ids, ids], axis=0) for name, ids in inputs.items()}
            labels = tf.concat([labels, labels], axis=0)
        labels = tf.reshape(labels, (1, -1))
        rows = tf.range(tf.size(labels))
        if not self.settings.jit:  # XLA wants to know how many there are
            rows = tf.cast(tf.where(labels[0] != 0)[:, 0], tf.int32)
        logits = self.model.logits_at(rows, inputs, training=True)
        labels = tf.gather(labels, rows, axis=1)
        losses, mask = token_losses(labels, logits[None], self.settings.label_smoothing)
        total = tf.reduce_sum(losses) / readings
        if readings > 1:
            apart = disagreement(*tf.split(logits, 2)) * tf.split(mask[0], 2)[0]
            total += self.settings.consistency * tf.reduce_sum(apart)
        return total

    @property
    def learning_rate(self):
        """That of the next step."""
        return float(self.schedule(self.optimizer.iterations))

    @property
    def variables(self):
        """All that a later step depends on: weights, states of dropout, the optimizer's moments."""
        return [*self.model.variables, *self.optimizer.variables]


def use_all_cores():
    """Has TensorFlow work on one operation a core, each on one thread, as `Trainer` likes it best.

    It has to be said before TensorFlow does anything; then it is too late, and nothing happens.
    """
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(_cores())


def _parts(strategy, settings, model):
    """How many parts of a batch are worked on side by side: one for each core.

    The steps of a loop over time are too small to be shared by cores; where an operation has one
    thread, each core takes a part of the batch instead. (On two cores, 256 units, 64 sentences as
    long as Multi30k's, a step takes 100 instead of 129 ms for Bahdanau's GRU, 111 instead of 144
    for Luong's LSTM, 111 instead of 129 for a Transformer of three layers.)
    """
    threads = tf.config.threading
    layers = model._flatten_layers()  # private in Keras, and the only way to find them all
    counts = any(isinstance(layer, ScheduledSampling) for layer in layers)  # a part is no step
    if strategy.num_replicas_in_sync > 1 or settings.jit or has_gpu() or counts:
        return 1
    if threads.get_intra_op_parallelism_threads() != 1:
        return 1
    return min(threads.get_inter_op_parallelism_threads() or _cores(), 8)


def _cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
