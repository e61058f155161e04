import inspect


class NamedArguments:
    """Mixin for layers with masks among their arguments: all but the first go to Keras by name.

    Keras fails where a mask that is None was passed by position, and takes no mask off a tensor
    that is the only one. So a mask that is left out is taken off its tensor here.
    """

    def __call__(self, *args, **kwargs):
        names = list(inspect.signature(self.call).parameters)
        if len(args) > len(names):
            return super().__call__(*args, **kwargs)  # which says what is wrong
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        for name, value in list(given.items()):
            if f"{name}_mask" in names and given.get(f"{name}_mask") is None:
                given[f"{name}_mask"] = getattr(value, "_keras_mask", None)
        for name in names[: len(args[:1])]:
            del given[name]  # the first one goes as it came
        return super().__call__(*args[:1], **given)
