"""The loss, and the training loop around it: `zoo.training.fit`, `run` and `settings`.

What is imported here runs on any backend; the loop is TensorFlow's.
"""

from zoo.training.token_crossentropy import TokenCrossentropy
