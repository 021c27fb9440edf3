"""PyTorch's size rules, against values worked out by hand from its documentation of the settings and its constants."""

import pytest

from forebay._core.emulate import PoolKind, Settings, may_serve, page_size, pool_of, rounded_size, segment_size, splits

KIB, MIB = 1 << 10, 1 << 20


def settings(**told):
    made = Settings()
    for name, value in told.items():
        setattr(made, name, value)
    return made


def divided(n):
    return settings(roundup_divisions=[n] * 16)


@pytest.mark.parametrize(
    ("requested", "rounded"),
    [(1, 512), (511, 512), (512, 512), (513, 1024), (MIB, MIB), (MIB + 1, MIB + 512), (10 * MIB - 1, 10 * MIB)],
)
def test_requests_are_whole_units_of_512_bytes(requested, rounded):
    assert rounded_size(requested, Settings()) == rounded


@pytest.mark.parametrize(
    ("divisions", "requested", "rounded"),
    [
        (4, 1200 * KIB, 1280 * KIB),  # 1024, 1280, 1536, 1792, 2048 KiB: the example of PyTorch's documentation
        (4, 1280 * KIB, 1280 * KIB),
        (4, 1281 * KIB, 1536 * KIB),
        (4, MIB, MIB),
        (4, 2 * MIB - 1, 2 * MIB),
        (4, 2048, 2048),  # not above 512 * 4: ordinary rounding
        (4, 2049, 2560),
        (1, 1200 * KIB + 1, 1200 * KIB + 512),
        (0, 1200 * KIB + 1, 1200 * KIB + 512),
    ],
)
def test_power_of_two_divisions(divisions, requested, rounded):
    assert rounded_size(requested, divided(divisions)) == rounded


def test_each_size_class_has_a_slot_of_its_own():
    slots = [0] * 16
    slots[1], slots[15] = 2, 8
    told = settings(roundup_divisions=slots)
    assert rounded_size(2 * MIB + 1, told) == 3 * MIB  # slot 1: 2 to 4 MiB in halves
    assert rounded_size(4 * MIB + 1, told) == 4 * MIB + 512
    assert rounded_size(33 << 30, told) == 36 << 30  # above 32 GiB the last slot: eighths
    assert rounded_size(65 << 30, told) == 72 << 30


@pytest.mark.parametrize(
    ("rounded", "segment"),
    [
        (512, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 512, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (10 * MIB + 512, 12 * MIB),
    ],
)
def test_segments(rounded, segment):
    assert segment_size(rounded, Settings()) == segment
    assert pool_of(rounded) == (PoolKind.small if rounded <= MIB else PoolKind.large)


def test_segments_follow_the_setting():
    told = settings(large_segment_size=40 * MIB)
    assert segment_size(2 * MIB, told) == 40 * MIB
    assert (page_size(PoolKind.large, told), page_size(PoolKind.small, told)) == (40 * MIB, 2 * MIB)


@pytest.mark.parametrize(
    ("rest", "pool", "expandable", "split"),
    [
        (512, PoolKind.small, False, True),
        (0, PoolKind.small, False, False),
        (MIB, PoolKind.large, False, False),
        (MIB + 512, PoolKind.large, False, True),
        (512, PoolKind.large, True, True),
    ],
)
def test_what_is_split(rest, pool, expandable, split):
    rounded = 512 if pool == PoolKind.small else 4 * MIB
    assert splits(rounded, rounded + rest, pool, expandable, Settings()) is split


def test_oversize_blocks_are_neither_split_nor_lent_to_small_requests():
    told = settings(max_split_size=64 * MIB)
    assert not splits(64 * MIB, 100 * MIB, PoolKind.large, False, told)
    assert splits(32 * MIB, 63 * MIB, PoolKind.large, False, told)
    assert not may_serve(32 * MIB, 64 * MIB, told)
    assert may_serve(32 * MIB, 64 * MIB - 512, told)
    assert may_serve(64 * MIB, 84 * MIB - 512, told)
    assert not may_serve(64 * MIB, 84 * MIB, told)
