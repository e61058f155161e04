import gzip
import os
import threading

import pytest

from zoo.data.lines import decode_lines, read_lines

LINES = b"a dog\r\n\nb\xff\tc \nthe last"
TEXTS = ["a dog", "", "b\ufffd\tc ", "the last"]


def test_lines_are_text_without_their_ends():
    assert list(decode_lines(LINES.splitlines(keepends=True))) == TEXTS


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_file_is_read_as_a_pipe_is(tmp_path, pack):
    """Such as `--input <(head -9 words.txt)`, which can be read once and from its beginning."""
    (tmp_path / "file").write_bytes(pack(LINES))
    assert list(read_lines(tmp_path / "file")) == TEXTS
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[pack(LINES)])
    writer.start()
    assert list(read_lines(tmp_path / "pipe")) == TEXTS
    writer.join()
