"""What the tests of PyTorch's library begin with; one that needs another has its own."""

import pytest

from adapters.torch_world import Torch


@pytest.fixture
def torch(tmp_path):
    return Torch(tmp_path)
