import inspect

import pytest

from forebay import errors
from forebay.errors import DriverError, ForebayError, Pending, PoolExhausted

CLASSES = [thing for _, thing in inspect.getmembers(errors, inspect.isclass) if issubclass(thing, Exception)]


def test_there_are_six_classes_and_all_are_forebay_errors():
    assert len(CLASSES) == 6
    assert all(issubclass(thing, ForebayError) for thing in CLASSES)


@pytest.mark.parametrize("thing", CLASSES)
def test_each_carries_its_message_and_says_what_it_is(thing):
    assert str(thing("asked 96 MiB")) == "asked 96 MiB"
    assert thing.__doc__


def test_figures_travel_with_the_error():
    gauges = {"reserved": 4, "allocated": 1}
    error = PoolExhausted("…", verdict="fragmented", gauges=gauges)
    gauges["reserved"] = 0
    assert (error.verdict, error.gauges) == ("fragmented", {"reserved": 4, "allocated": 1})


def test_a_driver_error_names_its_call_and_number():
    error = DriverError("…", call="cuMemFree", status=700, sticky=True)
    assert (error.call, error.status, error.sticky) == ("cuMemFree", 700, True)


def test_a_pending_wait_names_its_streams():
    assert Pending("…", streams=("decode",)).streams == ("decode",)
