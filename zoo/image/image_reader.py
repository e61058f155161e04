import tensorflow as tf

from zoo.image.image_table import ImageTable
from zoo.layers import checks

# Pixels times channels: what is larger takes the memory of a server.
MOST_VALUES = 2**28
MOST_CLEAR_VALUES = 2**26  # of a picture that must be laid over white first
AT_ONCE = 4  # images that are decoded at the same time


class ImageReader(tf.Module):
    """Encoded images to squares of pixels, inside the graph: the source side of a pipeline.

    It takes whatever bytes come in. PNG, JPEG, GIF (its first picture), BMP and WebP are read, of 8
    or 16 bits, grey, in colours or in CMYK; what is transparent is white. A picture is made as
    large as the square holds, with the sides that it has, and stands in the middle.

    Pixels are 1 to 255 (a 0 becomes 1), and 0 is padding, as it is in ids: beside a picture that is
    no square, and all over where bytes are no picture, are cut off, or would be more than 2**28
    values (2**26, where some of it may be transparent).

    Arguments:
        size: int, the pixels of the square's sides.
        patch: int, the pixels of the sides of what a model sees as one position: a divisor of
            `size`. A model's memory has (size / patch)**2 positions, row by row.

    Example:

    ```python
    import numpy as np
    import tensorflow as tf
    from zoo.image import ImageReader

    reader = ImageReader(size=32, patch=8)
    png = tf.io.encode_png(np.full((10, 20, 3), 200, "uint8")).numpy()
    pixels = reader.read([png, b"this is no picture"])
    assert pixels.shape == (2, 32, 32, 3) and pixels[0, 16, 16, 0] == 200
    assert pixels[0, 0, 0, 0] == 0 and not pixels[1].numpy().any()
    print(reader.tokens(pixels)[0, :5])  # 0,0  0,1  0,2  0,3  1,0
    ```
    """

    input_name = "image_bytes"  # of a SavedModel

    def __init__(self, size, patch):
        super().__init__()
        self.size = checks.integer("size", size, 1)
        self.patch = checks.divisor("patch", patch, "size", self.size)
        self.source_spec = tf.TensorSpec((None, size, size, 3), tf.uint8)

    def read(self, strings, limit=None):
        """(batch,) to pixels (batch, size, size, 3); there is no limit that would cut them off."""
        strings = tf.convert_to_tensor(strings, tf.string)
        count = tf.size(strings, tf.int64)

        def numbered(i):
            return i, self._square(tf.gather(strings, i))

        # A dataset, because nothing else in a graph goes on after an error.
        squares = tf.data.Dataset.range(count).map(numbered, num_parallel_calls=AT_ONCE)
        nothing = tf.data.Dataset.from_tensors(
            (count, tf.zeros((self.size, self.size, 3), tf.uint8))
        )
        squares = squares.ignore_errors().concatenate(nothing).batch(count + 1)
        numbers, pixels = squares.get_single_element()
        shape = tf.stack([count + 1, self.size, self.size, 3])
        pixels = tf.scatter_nd(numbers[:, None], pixels, shape)[:-1]
        return tf.ensure_shape(pixels, self.source_spec.shape)

    def _square(self, string):
        """A string to pixels (size, size, 3), or an error."""
        small = tf.debugging.assert_less_equal(
            _promised(string), tf.constant(MOST_VALUES, tf.int64)
        )
        with tf.control_dependencies([small]):
            image = tf.io.decode_image(string, expand_animations=False)
        image = tf.ensure_shape(image, (None, None, None))  # 1 to 4 channels
        is_clear = tf.shape(image)[2] % 2 == 0  # grey or colours, and how much there is of them
        most = tf.where(is_clear, MOST_CLEAR_VALUES, MOST_VALUES)
        with tf.control_dependencies([tf.debugging.assert_less_equal(tf.size(image), most)]):
            is_clear = tf.identity(is_clear)
        image = tf.cond(is_clear, lambda: _over_white(image), lambda: image)
        sides = tf.cast(tf.shape(image)[:2], tf.float32)
        sides = tf.cast(tf.round(sides * (self.size / tf.reduce_max(sides))), tf.int32)
        sides = tf.maximum(sides, 1)
        image = tf.image.resize(image, sides, antialias=True)
        image = tf.gather(image, tf.range(3) % tf.shape(image)[2], axis=2)  # a grey is three alike
        image = tf.cast(tf.clip_by_value(tf.round(image), 1, 255), tf.uint8)
        top, left = tf.unstack((self.size - sides) // 2)
        return tf.image.pad_to_bounding_box(image, top, left, self.size, self.size)

    def lengths(self, source):
        """How many positions (batch,) a memory of what was read has."""
        return tf.where(_is_there(source), (self.size // self.patch) ** 2, 0)

    def trimmed(self, source):
        """Some of the rows that were read: all are of one size."""
        return source

    def tokens(self, source):
        """Row and column of each position, "0,0" and so on; "" where there is no picture."""
        side = range(self.size // self.patch)
        names = tf.constant([f"{row},{column}" for row in side for column in side])
        return tf.where(_is_there(source)[:, None], names, "")

    def encode(self, strings, limit=None):
        """A list of bytes as `Batches` takes them: lists of ids, and what they are looked up in."""
        numbers = {one: i for i, one in enumerate(dict.fromkeys(strings), 1)}
        return [[numbers[one]] for one in strings], ImageTable(self, list(numbers))

    def serialize(self):
        """Plain data that a pipeline makes it from again."""
        return {"class": type(self).__name__, "size": self.size, "patch": self.patch}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def _is_there(source):
    return tf.reduce_any(source != 0, axis=(1, 2, 3))


def _promised(string):
    """The pixels that the beginning of a PNG or a JPEG tells of; 0 of what is neither."""

    def png():
        sides = tf.strings.substr(string, 16, 8)
        return tf.reduce_prod(
            tf.cast(tf.io.decode_raw(sides, tf.int32, little_endian=False), tf.int64)
        )

    def jpeg():
        return tf.reduce_prod(tf.cast(tf.io.extract_jpeg_shape(string)[:2], tf.int64))

    begins = [(b"\x89PNG\r\n\x1a\n", png), (b"\xff\xd8\xff", jpeg)]
    cases = [(tf.strings.substr(string, 0, len(mark)) == mark, read) for mark, read in begins]
    return tf.case(cases, default=lambda: tf.constant(0, tf.int64))


def _over_white(image):
    """Without the last channel of an image, which says how much there is of the others."""
    image = tf.cast(image, tf.uint16)  # 255 * 255 is not too much
    alpha = image[:, :, -1:]
    image = (image[:, :, :-1] * alpha + 255 * (255 - alpha) + 127) // 255
    return tf.cast(image, tf.uint8)
