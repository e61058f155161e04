import inspect


class NamedArguments:
    """Mixin for layers with a mask argument in the middle: all arguments but the first go by name.

    Keras fills in a mask argument that is None, and fails if that None was passed by position.
    """

    def __call__(self, *args, **kwargs):
        names = list(inspect.signature(self.call).parameters)[1 : len(args)]
        return super().__call__(*args[:1], **dict(zip(names, args[1:], strict=True)), **kwargs)
