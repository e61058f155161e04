import asyncio
import concurrent.futures

from zoo.preview.refused import Refused


class WorkQueue:
    """Threads that work, and a line of limited length before them; what is beyond is refused.

    Arguments:
        workers: int, how many requests are computed at a time.
        waiting: int, how many more may wait.
        timeout: float, the seconds after which a request is given up. One that waits leaves the
            line then; one that is computed keeps its thread until it is done.
    """

    def __init__(self, workers, waiting, timeout):
        self.workers, self.waiting, self.timeout = workers, waiting, timeout
        self.count = 0  # of requests that are waiting or computed
        self._turns = asyncio.Semaphore(workers)
        self._threads = concurrent.futures.ThreadPoolExecutor(workers, "zoo-serve")

    async def run(self, function, *arguments):
        """What the function returns, once it is its turn."""
        if self.count >= self.workers + self.waiting:
            raise Refused(
                "RESOURCE_EXHAUSTED",
                f"The queue is full: {self.workers} requests are computed, {self.waiting} wait",
            )
        self.count += 1
        future = None
        try:
            async with asyncio.timeout(self.timeout):
                # Who waits, waits here: nothing of it stays when it is given up or cancelled.
                await self._turns.acquire()
                future = asyncio.wrap_future(self._threads.submit(function, *arguments))
                future.add_done_callback(self._leave)
                return await asyncio.shield(future)
        except TimeoutError:
            raise Refused("DEADLINE_EXCEEDED", f"No answer within {self.timeout:g} s") from None
        finally:
            if future is None:
                self.count -= 1

    def _leave(self, future):
        """A thread is free again, whether or not anybody waits for what it has done."""
        self.count -= 1
        self._turns.release()
        if not future.cancelled():
            future.exception()  # which nobody may have waited for
