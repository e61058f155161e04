import contextlib
import pathlib
import queue
import socket
import sys
import threading
import time

import tensorflow as tf
from tensorflow.data.experimental import service

from zoo.data.packed import batch_of
from zoo.errors import Failure, first_line
from zoo.training.checkpoints import write

END = ()  # of what arrives


class DataService:
    """Batches that other processes make, perhaps on other machines, by the service of tf.data.

    Workers take the numbers of an epoch's batches from the dispatcher, whoever has time, and read
    the epoch's ids from the run's folder. What comes is put in order again, and what does not come,
    because its worker is gone, is made here: the batches are those of `Batches.epoch`, always.

    Arguments:
        address: "HOST:PORT" of the dispatcher.
        batches: `Batches`.
        run: path of the run's folder, which all workers have to see under the same name.
        worker: int, which of several trainings side by side this is.
        patience: seconds to wait for a batch before it is made here.
        give_up: seconds in which nothing comes at all, after which that is an error.
    """

    def __init__(self, address, batches, run, worker=0, patience=5.0, give_up=60.0):
        self.address = address
        self.batches = batches
        self.folder = pathlib.Path(run).absolute() / "batches"
        self.worker = worker
        self.patience, self.give_up = patience, give_up
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError as error:
            raise Failure(
                f"`--data-service` {address}: no dispatcher answers there ({error}). "
                "Start `zoo data-service dispatcher`, or go without: --data-service None"
            ) from error

    def epoch(self, epoch, first=0):
        """Yields the batches of an epoch from the first-th on."""
        vector, layout = self.batches.packed(epoch)
        self.folder.mkdir(exist_ok=True)
        path = self.folder / f"worker-{self.worker}-epoch-{epoch}.ids"
        write(path, vector.tobytes())
        dataset = self._dataset(str(path), layout, first)
        try:
            with contextlib.closing(self._arriving(dataset)) as arriving:
                for batch in self._in_order(arriving, vector, layout, first):
                    yield self.batches.looked_up(batch)
        finally:
            path.unlink(missing_ok=True)

    def _dataset(self, path, layout, first):
        """Numbers of batches and the batches, in no order."""

        def make(vector, number):
            # Each process reads the file once, with its first batch.
            vector = tf.cond(tf.size(vector) == 0, read, lambda: vector)
            return vector, (number, batch_of(vector, layout, number))

        def read():
            return tf.io.decode_raw(tf.io.read_file(path), tf.int32)

        numbers = tf.data.Dataset.range(first, layout.count, output_type=tf.int32)
        dataset = numbers.scan(tf.zeros((0,), tf.int32), make)
        distribute = service.distribute(
            processing_mode=service.ShardingPolicy.DYNAMIC, service=f"grpc://{self.address}"
        )
        return dataset.apply(distribute)

    def _in_order(self, arriving, vector, layout, first):
        waiting, heard = {}, time.monotonic()
        ended = told = False
        for number in range(first, layout.count):
            since = time.monotonic()
            while number not in waiting and not ended and time.monotonic() - since < self.patience:
                came = next(arriving)
                ended = came is END
                if came and came[0] >= number:
                    waiting[came[0]] = came[1]
                if came is not None:
                    heard = time.monotonic()
                elif time.monotonic() - heard > self.give_up:
                    raise Failure(
                        f"The data service at {self.address} has given nothing for "
                        f"{self.give_up:.0f} seconds: see that its dispatcher and its workers run. "
                        "The same command goes on at the last checkpoint"
                    )
            if number not in waiting and not told:
                told = True
                print(
                    f"zoo: batch {number} did not come from the data service at {self.address}: "
                    "it is made here, as are others that do not come",
                    file=sys.stderr,
                )
            yield waiting.pop(number, None) or batch_of(vector, layout, number)

    def _arriving(self, dataset):
        """Yields what comes, None now and then where nothing does, and `END` at the end."""
        items, gone = queue.Queue(16), threading.Event()

        def put(item):
            while not gone.is_set():
                with contextlib.suppress(queue.Full):
                    return items.put(item, timeout=0.5)

        def fetch():
            try:
                for number, batch in dataset:
                    put((int(number), batch))
                    if gone.is_set():
                        return
                put(END)
            except tf.errors.OpError as error:
                put(error)

        # A thread, because nothing else can wait for a dataset for a while only.
        threading.Thread(target=fetch, daemon=True).start()
        try:
            while True:
                item = None
                with contextlib.suppress(queue.Empty):
                    item = items.get(timeout=0.5)
                if isinstance(item, tf.errors.OpError):
                    raise Failure(
                        f"The data service at {self.address} failed: {first_line(item)[:200]}. Its "
                        f"workers have to see {self.folder}. The same command goes on at the last "
                        "checkpoint"
                    ) from item
                yield item
        finally:
            gone.set()
