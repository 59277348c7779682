import pytest

from serving.topics.classifier import Classifier


@pytest.fixture(scope="session")
def classifier():
    """As it is shipped; loaded once."""
    return Classifier.load()
