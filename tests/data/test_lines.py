import gzip
import os
import threading

import pytest

from zoo.data.lines import decode_lines, read_lines

LINES = b"a dog\r\n\nb\xff\tc \nthe last"
TEXTS = ["a dog", "", "b\ufffd\tc ", "the last"]


def test_lines_are_text_without_their_ends():
    assert list(decode_lines(LINES.splitlines(keepends=True))) == TEXTS


def test_a_byte_order_mark_is_no_letter(tmp_path):
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfa dog\r\n\xef\xbb\xbfb")
    assert list(read_lines(tmp_path / "file")) == ["a dog", "\ufeffb"]
    for name in ("utf-16-le", "utf-16-be"):
        (tmp_path / "file").write_bytes("\ufeffa dog\n".encode(name))
        with pytest.raises(ValueError, match="file is UTF-16. `iconv -f UTF-16 -t UTF-8`"):
            list(read_lines(tmp_path / "file"))


@pytest.mark.parametrize("change", [lambda x: x[:-12], lambda x: x[:-8] + bytes(8)])
def test_a_damaged_file_is_named(tmp_path, change):
    (tmp_path / "cut.gz").write_bytes(change(gzip.compress(LINES * 99)))
    with pytest.raises(ValueError, match="cut.gz is damaged: "):
        list(read_lines(tmp_path / "cut.gz"))


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
