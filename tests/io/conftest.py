import pytest


@pytest.fixture
def says():
    """Whether one line of a text contains all these facts, whatever its other words."""

    def check(text: str, *facts: str) -> bool:
        return any(all(fact in line for fact in facts) for line in text.splitlines())

    return check
