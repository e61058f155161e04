"""What someone who waits gets to see."""

import io
import time

from zoo.training.progress import Progress, duration


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_a_line_moves_and_results_stay():
    terminal = Terminal()
    progress = Progress(epochs=3, steps=10, file=terminal)
    time.sleep(0.25)
    progress.show(epoch=1, step=5, loss=20.0, tokens=10.0)
    progress.show(epoch=1, step=6, loss=99.0, tokens=10.0)  # too soon after
    progress.keep("epoch 2/3 done")
    moving, lasting = terminal.getvalue().split("\r\x1b[K")[1:]
    assert moving.startswith("epoch 2/3 [##########..........]  50%  loss 2.000")
    assert lasting == "epoch 2/3 done\n"


def test_the_speed_is_told_from_the_first_line_of_an_epoch_on():
    terminal = Terminal()
    progress = Progress(epochs=3, steps=10, file=terminal)
    for epoch, tokens in ((0, 5000.0), (1, 100.0)):
        time.sleep(0.25)
        progress.show(epoch=epoch, step=5, loss=20.0, tokens=tokens)
    speeds = [
        float(line.split()[-2].replace(",", "")) for line in terminal.getvalue().split("\r")[1:]
    ]
    assert 5000 / 1.0 < speeds[0] <= 5000 / 0.25
    assert 100 / 1.0 < speeds[1] <= 100 / 0.25


def test_in_a_file_only_results_are_written():
    file = io.StringIO()
    progress = Progress(epochs=3, steps=10, file=file)
    progress.show(epoch=1, step=5, loss=20.0, tokens=10.0)
    progress.say("scoring")
    progress.keep("epoch 2/3 done")
    assert file.getvalue() == "epoch 2/3 done\n"


def test_durations():
    assert [duration(s) for s in (0, 61.4, 3599.6, 3723)] == ["0:00", "1:01", "1:00:00", "1:02:03"]
