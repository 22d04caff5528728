"""each: cheap cases of one test, in one test."""

import functools
import inspect
from itertools import product


def each(**values):
    """A decorator: the test runs for every combination of these values; an error says for which.

    >>> @each(a=[1, 2], b=[10, 20])
    ... def test(a, b):
    ...     print(a * b)
    >>> test()
    10
    20
    20
    40
    """

    def decorate(test):
        signature = inspect.signature(test)
        others = [parameter for name, parameter in signature.parameters.items() if name not in values]

        @functools.wraps(test)
        def run(**given):
            for combination in product(*(list(some) for some in values.values())):
                case = dict(zip(values, combination, strict=True))
                try:
                    test(**given, **case)
                except BaseException as error:
                    error.add_note(f"in the case {case}")
                    raise

        run.__signature__ = signature.replace(parameters=others)
        del run.__wrapped__
        return run

    return decorate
