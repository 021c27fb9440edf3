"""Settings strings: what each comes to, what a second string resets, what is refused. Expected values are worked out by hand."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.errors import BadInput
from forebay.whatif.settings import DEFAULTS, apply

MIB = 2**20


@pytest.mark.parametrize("text", ["", "none", " none "])
def test_no_settings_are_pytorchs_defaults(text):
    assert apply(text) == DEFAULTS


def test_each_setting_lands_in_its_field():
    got = apply("large_segment_size_mb:32, max_split_size_mb:64,max_non_split_rounding_mb:40,garbage_collection_threshold:0.6")
    assert (got.large_segment_size, got.max_split_size, got.max_non_split_rounding) == (32 * MIB, 64 * MIB, 40 * MIB)
    assert got.gc_threshold == 0.6


def test_a_bare_rounding_fills_every_slot():
    assert apply("roundup_power2_divisions:4").roundup_divisions == (4,) * 16


def test_a_rounding_table_fills_below_its_first_size_and_above_its_last():
    got = apply("roundup_power2_divisions:[256:1,512:2,1024:4,>:8]").roundup_divisions
    assert got == (1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8)


def test_gaps_in_a_rounding_table_stay_zero():
    assert apply("roundup_power2_divisions:[2:8,16:4]").roundup_divisions == (8, 8, 0, 0, 4) + (0,) * 11


def test_a_second_string_resets_all_but_expandable_segments_and_the_segment_size():
    first = apply("large_segment_size_mb:32,expandable_segments:True,max_split_size_mb:64,roundup_power2_divisions:4")
    second = apply("garbage_collection_threshold:0.5", first)
    assert (second.max_split_size, second.roundup_divisions) == (None, (0,) * 16)
    assert (second.expandable_segments, second.large_segment_size, second.max_non_split_rounding) == (True, 32 * MIB, 32 * MIB)


def test_settings_without_influence_are_read_over():
    assert apply("pinned_use_background_threads:True,release_lock_on_cudamalloc:False") == DEFAULTS


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("max_split_sise_mb:64", "no setting is called 'max_split_sise_mb'"),
        ("max_split_size_mb:10", "too small, the least is 20"),
        ("max_split_size_mb:lots", "expected a whole number"),
        ("max_split_size_mb", "ends where"),
        ("max_split_size_mb=64", "no setting is called 'max_split_size_mb=64'"),
        ("expandable_segments:true", "expected True or False"),
        ("garbage_collection_threshold:1", "between 0 and 1"),
        ("garbage_collection_threshold:1.2.3", "expected a number"),
        ("roundup_power2_divisions:3", "power of two"),
        ("roundup_power2_divisions:[3:4]", "power of two in MiB"),
        ("roundup_power2_divisions:[4:4", "ends where"),
        ("backend:cudaMallocAsync", "only `native` can be emulated"),
        ("max_split_size_mb:64 expandable_segments:True", "expected a whole number"),
        ("roundup_power2_divisions:[256\n1,512:2]", r"expected ':' after roundup_power2_divisions 256\n1, got ','"),
    ],
)
def test_what_pytorch_refuses_is_refused_in_one_line(text, why):
    with pytest.raises(BadInput, match=r"^allocator settings .*") as caught:
        apply(text)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(alphabet="abcdefgz_0123456789.:,[]> TrueFalse", max_size=60))
def test_any_text_is_understood_or_refused(text):
    with suppress(BadInput):
        assert apply(text).large_segment_size == DEFAULTS.large_segment_size
