import contextlib
import dataclasses
import signal
import time

from zoo.errors import Failure
from zoo.evaluation.metrics import LOWER_IS_BETTER
from zoo.serving.pipelines import deserialize
from zoo.training.data_service import DataService
from zoo.training.progress import Progress, duration
from zoo.training.trainer import Trainer

MOST_BAD_STEPS = 5  # one after the other, before the training ends
# What the chief tells the other workers after an epoch.
GO_ON, NOTHING_GETS_BETTER, STOPPED = range(3)


@dataclasses.dataclass
class State:
    """Where a training stands, beside its variables."""

    epoch: int = 0
    batch: int = 0  # of the epoch, the next one
    seconds: float = 0.0
    loss: float = 0.0  # summed over the epoch so far
    tokens: float = 0.0
    bad_steps: int = 0  # of the epoch so far, which changed nothing
    best_epoch: int = 0
    best: dict = dataclasses.field(default_factory=dict)  # the scores of the best epoch


class Interrupted(Failure):
    """The training was asked to stop, and has written down where it stands."""

    def __init__(self, signal_number, path):
        super().__init__(f"Stopped. The same command goes on with {path}", 128 + signal_number)


def fit(run, pipeline, batches, dev, metrics, attention_losses=()):
    """Trains a run's pipeline to its last epoch, from wherever the run stands.

    After each epoch the mean of the last epochs' weights is scored on dev by the pipeline itself,
    and kept if it is the best so far. Ctrl-C and SIGTERM end the training after the
    current step, with a checkpoint from which the same steps follow as would have without them;
    of several workers all end together, wherever the signal came in.

    Arguments:
        run: a `Run`.
        pipeline: what `run.pipeline(...)` gave.
        batches: `Batches`.
        dev: `Examples`.
        metrics: names out of `zoo.evaluation.metrics.METRICS`; the first one decides what is best.
        attention_losses: list of `AttentionLoss`, whose columns the batches have.

    Returns the scores of the best epoch, {metric: {"score", "signature"}}.
    """
    with run.devices.together(), _signals() as received:
        return _Fit(run, pipeline, batches, dev, metrics, attention_losses, received).to_the_end()


class _Fit:
    def __init__(self, run, pipeline, batches, dev, metrics, attention_losses, received):
        self.source = batches  # of an epoch's batches
        if run.config.data_service:
            address = run.config.data_service
            self.source = DataService(address, batches, run.path, run.devices.worker)
        run.begin(pipeline, batches)
        self.run, self.settings, self.devices = run, run.config, run.devices
        self.checkpoints = run.checkpoints
        self.batches, self.metrics = batches, metrics
        self.dev = dev
        self.received = received  # the signals
        total_steps = len(batches) * run.config.epochs
        about = {"spec": batches.spec, "attention_losses": attention_losses}
        self.trainer = Trainer(pipeline.model, run.config, total_steps, **about)
        # What is scored and kept computes in float32, as it will when it is exported.
        self.averaged = deserialize(pipeline.get_config()) if run.is_chief else None
        self.state = State()
        self.progress = Progress(run.config.epochs, len(batches), quiet=not run.is_chief)
        stored = self.checkpoints.read_state()
        if stored:
            self._require_fit(stored[0])
            _assign(self.trainer.variables, stored[0])
            self.state = State(**stored[1])
            run.forget_after(self.state.epoch)
        self.devices.require_same(self.steps, "checkpoints")
        _tell_losses(pipeline, batches, self.progress)
        if self.steps and self.state.epoch < self.settings.epochs:
            self.progress.keep(
                f"going on at epoch {self.state.epoch + 1}, step {self.state.batch} of "
                f"{len(batches)}"
            )

    def _require_fit(self, arrays):
        wanted = [tuple(variable.shape) for variable in self.trainer.variables]
        found = [array.shape for array in arrays]
        if found != wanted:
            pairs = zip(found, wanted, strict=False)
            differing = [f"{a} for {b}" for a, b in pairs if a != b] or ["other variables"]
            raise ValueError(
                f"{self.run.path}: the checkpoints are of another vocabulary or model than "
                f"pipeline.json. Received: weights of {differing[0]}. Bring back the pipeline.json "
                "that the run began with, or choose another --output"
            )

    @property
    def steps(self):
        """That were taken so far."""
        return self.state.epoch * len(self.batches) + self.state.batch

    def to_the_end(self):
        state, stalls = self.state, self._is_stalled(self.state.epoch)
        while state.epoch < self.settings.epochs and not stalls:
            self._train_epoch()
            verdict = self.devices.sum(self._finish_epoch() if self.run.is_chief else 0)
            if verdict == STOPPED:
                raise self._interrupted()
            stalls = verdict == NOTHING_GETS_BETTER
            self.state = state = dataclasses.replace(
                state, epoch=state.epoch + 1, batch=0, loss=0.0, tokens=0.0, bad_steps=0
            )
        if not self.run.is_chief:
            return self.checkpoints.read("best")[1]["scores"]
        listed = ", ".join(f"{name} {value['score']:.2f}" for name, value in state.best.items())
        self.progress.keep(
            f"best: epoch {state.best_epoch}, {listed}; {duration(state.seconds)} of training"
        )
        return state.best

    def _train_epoch(self):
        state, began = self.state, time.monotonic()
        saved, seconds = began, state.seconds
        loss, tokens = state.loss, state.tokens
        before = None  # what the step before this one tells; to wait for this one would cost time
        for batch in self.source.epoch(state.epoch, first=state.batch):
            more_loss, more_tokens, *news = self.trainer.step(batch, bool(self.received))
            loss, tokens = loss + more_loss, tokens + more_tokens  # nothing waits for them
            state.batch += 1
            is_last = state.batch == len(self.batches)
            # Several workers agree on it: what one has asked for, all hear with the next step.
            stops = bool(self.received) and self.devices.workers == 1
            stops += self._read(before) + (self._read(news) if is_last or stops else 0)
            before = news
            now = time.monotonic()
            save = now - saved > 60 * self.settings.save_minutes
            if save or stops or is_last:
                state.loss, state.tokens = float(loss), float(tokens)
                state.seconds = seconds + time.monotonic() - began
                self._save(state)
                saved = now
            if stops:
                raise self._interrupted()
            self.progress.show(state.epoch, state.batch, loss, tokens)

    def _read(self, news):
        """What a step tells: whether to stop, and how many steps came to nothing."""
        if news is None:
            return False
        bad, stops = (float(number) for number in news)
        self.state.bad_steps += bad > 0
        if bad >= MOST_BAD_STEPS:
            raise Failure(
                f"The loss or a gradient was no number in {MOST_BAD_STEPS} steps one after the "
                f"other, epoch {self.state.epoch + 1}, up to step {self.state.batch}. They changed "
                f"nothing. {self.run.path} stays at its last checkpoint; a new run with a lower "
                "--learning-rate or --clip-norm may do"
            )
        return stops > 0

    def _save(self, state):
        if self.run.is_chief:
            variables, values = self.trainer.variables, dataclasses.asdict(state)
            self.checkpoints.save_state(self.steps, variables, **values)

    def _interrupted(self):
        return Interrupted(self.received[0] if self.received else signal.SIGTERM, self.run.path)

    def _finish_epoch(self):
        """Scores and keeps the epoch's weights, and says how it goes on; the chief's affair."""
        state, began = self.state, time.monotonic()
        epoch = state.epoch + 1
        self.checkpoints.save_epoch(epoch, self.trainer.model.weights)
        self.progress.say(f"epoch {epoch}: scoring {len(self.dev.sources)} dev examples")
        _assign(self.averaged.model.weights, self.checkpoints.average(epoch))
        parts = (self.dev.sources, self.dev.targets, self.metrics)
        scores = self.averaged.scores(*parts, stops=lambda: bool(self.received))
        if scores is None:  # a signal is not kept waiting: the next start scores
            return STOPPED
        is_best = _is_better(scores, state.best, self.metrics[0])
        if is_best:
            state.best_epoch, state.best = epoch, scores
            self.checkpoints.save("best", self.averaged.model.weights, epoch=epoch, scores=scores)
        state.seconds += time.monotonic() - began
        self._tell(epoch, scores, is_best)
        begun = dataclasses.replace(state, epoch=epoch, batch=0, loss=0.0, tokens=0.0, bad_steps=0)
        # No variable has changed since the last step was saved.
        self.checkpoints.change_state(self.steps, **dataclasses.asdict(begun))
        return NOTHING_GETS_BETTER if self._is_stalled(epoch) else GO_ON

    def _tell(self, epoch, scores, is_best):
        state, epochs = self.state, self.settings.epochs
        values = {
            "epoch": epoch,
            "step": int(self.trainer.optimizer.iterations.numpy()),
            "loss": state.loss / max(state.tokens, 1.0),
            "learning_rate": self.trainer.learning_rate,
            "seconds": round(state.seconds, 1),
            **({"bad_steps": state.bad_steps} if state.bad_steps else {}),
            **{name: value["score"] for name, value in scores.items()},
        }
        self.run.log(values)
        listed = "  ".join(f"{name} {value['score']:.2f}" for name, value in scores.items())
        bad = f"  steps that were no numbers: {state.bad_steps}" if state.bad_steps else ""
        self.progress.keep(
            f"epoch {epoch}/{epochs}  loss {values['loss']:.4f}  {listed}"
            f"{' *' if is_best else '  '}  {duration(state.seconds)}, "
            f"{duration(state.seconds / epoch * (epochs - epoch))} left{bad}"
        )

    def _is_stalled(self, epoch):
        patience = self.settings.patience
        return bool(patience) and epoch - self.state.best_epoch >= patience


def _tell_losses(pipeline, batches, progress):
    """What of the data is not learnt from."""
    if batches.too_long:
        progress.keep(
            f"{batches.too_long} of {len(batches.sources)} examples are longer than "
            "--max-length and left out"
        )
    if batches.cut:
        progress.keep(
            f"{batches.cut} of {len(batches.sources)} sources are longer than --max-length and cut "
            f"to their first {batches.max_length} tokens"
        )
    unknown = sum(ids.count(pipeline.target_tokenizer.unknown_id) for ids in batches.targets)
    if unknown:
        progress.keep(f"{unknown} symbols of the targets are unknown to the model's tokenizer")


def _is_better(scores, best, metric):
    if not best:
        return True
    sign = -1 if metric in LOWER_IS_BETTER else 1
    return sign * scores[metric]["score"] > sign * best[metric]["score"]


def _assign(variables, arrays):
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)


@contextlib.contextmanager
def _signals():
    """Collects Ctrl-C and SIGTERM, so that a step is finished first; a second one stops at once."""
    received = []

    def receive(number, frame):
        if received:
            raise KeyboardInterrupt
        received.append(number)

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, receive) for number in numbers]
    try:
        yield received
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
