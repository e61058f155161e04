import sys
import time


class Progress:
    """One line that tells how far an epoch is, on a terminal, and a lasting line after each.

    Arguments:
        epochs: int.
        steps: int, of an epoch.
        quiet: bool, whether nothing is told, since another process does.
    """

    def __init__(self, epochs, steps, file=None, quiet=False):
        self.epochs = epochs
        self.steps = steps
        self.file = file or sys.stdout
        self.quiet = quiet
        self.is_terminal = self.file.isatty() and not quiet
        self.shown, self.tokens = time.monotonic(), 0.0

    def show(self, epoch, step, loss, tokens):
        """Now and then, since the sums of loss and tokens have to be waited for.

        That is five times a second on a terminal, and once a minute in a file.
        """
        now = time.monotonic()
        if self.quiet or now - self.shown < (0.2 if self.is_terminal else 60):
            return
        loss, tokens = float(loss), float(tokens)
        before = self.tokens if self.tokens < tokens else 0.0  # an epoch counts from zero
        speed = (tokens - before) / (now - self.shown)
        self.shown, self.tokens = now, tokens
        done = step / self.steps
        bar = ("#" * int(20 * done)).ljust(20, ".")
        text = f"epoch {epoch + 1}/{self.epochs} [{bar}] {done:4.0%}"
        text += f"  loss {loss / tokens:.3f}  {speed:,.0f} tokens/s"
        (self._rewrite if self.is_terminal else self.keep)(text)

    def say(self, text):
        """A line that stays only until the next."""
        if self.is_terminal:
            self._rewrite(text)

    def keep(self, text):
        if self.is_terminal:
            self._rewrite("")
        if not self.quiet:
            print(text, file=self.file, flush=True)

    def _rewrite(self, text):
        print(f"\r\x1b[K{text}", end="", file=self.file, flush=True)


def duration(seconds):
    """ "1:02:03", or "2:03" within an hour."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
