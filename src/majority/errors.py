"""The two ways in which a person's request can fail. Everything else is a bug and keeps its traceback."""


class InputError(ValueError):
    """Bad input or wrong use: the message says what is wrong, where, and the cure."""


class TrainingError(RuntimeError):
    """Training went wrong (a loss that is not finite, say); nothing bad was saved."""
