"""Every example in a docstring of the package runs."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import forebay

MODULES = [
    module.name
    for module in pkgutil.walk_packages(forebay.__path__, "forebay.")
    if (path := getattr(module.module_finder, "path", None))
    and (source := Path(path, module.name.rpartition(".")[2])).parent.is_dir()
    and any(
        re.search(r"^ *>>> ", file.read_text(), re.MULTILINE)
        for file in (source.with_suffix(".py"), source / "__init__.py")
        if file.is_file()
    )
]


def test_there_are_modules_with_examples():
    assert {"forebay.units", "forebay.region", "forebay.calls"} <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
