"""Statements 6, 7 and 9 of DESIGN section 2, a drawing each: frees, reuse, ranges and graphs. Verdicts are worked out by hand."""

from views.drawings import found

# A block of s1, used on s2 after a wait for its making.
USED = """pool own
pool vouched trusted
stream s1 nonblocking
stream s2 nonblocking
t0 s1 alloc A 1M @0 pool={pool}
t0 s1 record made
t0 s2 wait made
t0 s2 launch k r:A
"""


def used(rest: str, pool: str = "own") -> list[str]:
    """The verdict where `rest` follows a use on s2 of s1's block."""
    return found(USED.format(pool=pool) + rest)


# 6. A free is an access.


def test_a_free_on_the_stream_that_used_the_block_is_ordered():
    assert used("t0 s2 free A") == []


def test_a_free_on_the_wrong_stream_is_possible_while_nothing_could_be_given_the_bytes():
    assert used("t0 s1 free A") == ["possible free: k free"]


def test_it_is_certain_once_an_alloc_could_have_got_the_bytes():
    assert used("t0 s1 free A\nt0 s1 alloc B 512K @0x900000 pool=own") == ["certain free: k free"]


def test_an_alloc_too_large_or_of_another_pool_or_stream_could_not():
    for other in (
        "s1 alloc B 2M @0x900000 pool=own",
        "s1 alloc B 512 @0x900000 pool=vouched",
        "s2 alloc B 512 @0x900000 pool=own",
    ):
        assert used(f"t0 s1 free A\nt0 {other}") == ["possible free: k free"]


def test_the_gap_closes_when_the_freeing_stream_has_waited():
    late = "t0 s1 free A\nt0 s2 record e\nt0 s1 wait e\nt0 s1 alloc B 512 @0x900000 pool=own"
    assert used(late) == ["possible free: k free"]


def test_a_sync_of_another_thread_may_have_closed_the_gap():
    turns = "t0 s1 free A\nt1 s2 sync_stream\nt1 s1 alloc B 2M @0x900000 pool=own\nt0 s1 alloc C 512 @0xc00000 pool=own"
    assert used(turns) == ["possible free: k free"]


def test_a_record_after_the_last_use_and_a_wait_before_the_free_are_enough():
    assert used("t0 s2 record e\nt0 s1 wait e\nt0 s1 free A\nt0 s1 alloc B 1M @0 pool=own\nt0 s1 launch k2 w:B") == []


def test_no_edge_from_the_free_to_the_next_alloc_is_demanded():
    assert (
        used("t0 s2 record e\nt0 s1 wait e\nt0 s1 free A\nt0 s3 wait e\nt0 s3 alloc B 1M @0 pool=own\nt0 s3 launch k2 w:B") == []
    )


def test_a_record_before_the_last_use_orders_nothing():
    text = """t0 s1 alloc  A 1M @0
              t0 s1 record e
              t0 s1 launch k1 w:A
              t0 s1 free   A
              t0 s2 wait   e
              t0 s2 alloc  B 1M @0
              t0 s2 launch k2 w:B"""
    assert found(text) == ["certain access: k1 k2"]


def test_a_lend_orders_the_free_after_the_other_stream():
    assert used("t0 s2 lend A\nt0 s1 free A\nt0 s1 alloc B 512 @0x900000 pool=own") == []


def test_a_lend_counts_for_what_was_issued_before_the_free():
    late = "t0 s2 lend A\nt0 s1 free A\nt0 s2 launch k2 r:@0+1M\nt0 s1 alloc B 512 @0x900000 pool=own"
    assert used(late) == ["possible free: free k2"]


def test_the_host_may_know_at_the_reclaim_what_the_free_did_not():
    known = "t0 s1 free A\nt0 s2 record e\nt0 query e +ready\nt0 s1 reclaim A\nt0 s1 alloc B 1M @0 pool=own"
    assert used(known) == []
    assert used(known.replace(" +ready", "")) == ["certain free: k free"]


def test_a_use_issued_after_the_free_is_a_finding_in_any_order():
    assert used("t0 s2 free A\nt0 s2 launch k2 r:@0+512") == ["possible free: free k2"]
    assert used("t0 s2 free A\nt0 s2 alloc B 512 @0x900000 pool=own\nt0 s2 launch k2 r:@0+512") == ["certain free: free k2"]


def test_an_alloc_used_on_another_stream_without_a_wait_is_possible():
    text = "t0 s1 alloc A 1M @0\nt0 s2 launch k w:A\nt0 s2 launch k2 r:A"
    assert found(text) == ["possible alloc: alloc k", "possible alloc: alloc k2"]


def test_a_write_that_comes_after_the_alloc_stands_for_it():
    text = "t0 s1 alloc A 1M @0\nt0 s1 launch k w:A\nt0 s2 launch k2 r:A"
    assert found(text) == ["certain access: k k2"]


def test_a_trusted_pools_alloc_comes_after_the_release_of_the_bytes():
    reuse = "t0 s2 free A\nt0 s1 alloc B 1M @0 pool={pool}\nt0 s1 launch k2 w:B"
    assert used(reuse.format(pool="vouched"), "vouched") == []
    assert used(reuse.format(pool="own")) == ["certain access: k k2"]


def test_a_trusted_pool_does_not_mend_a_free_on_the_wrong_stream():
    reuse = "t0 s1 free A\nt0 s1 alloc B 1M @0 pool=vouched\nt0 s1 launch k2 w:B"
    assert used(reuse, "vouched") == ["certain free: k free", "certain access: k k2"]


def test_an_unmap_under_a_running_kernel():
    assert used("t0 unmap @0 2M") == ["certain unmap: k unmap"]


def test_stream_order_is_not_enough_for_an_unmap():
    assert used("t0 s2 free A\nt0 s2 launch last\nt0 unmap @0 2M") == ["certain unmap: k unmap"]


def test_an_unmap_after_the_host_knows_of_every_use():
    assert used("t0 s2 free A\nt0 s2 record e\nt0 query e +ready\nt0 unmap @0 2M") == []
    assert used("t0 s2 free A\nt0 s1 record e\nt0 query e +ready\nt0 unmap @0 2M") == ["certain unmap: k unmap"]


def test_a_trusted_pools_reuse_is_not_enough_for_an_unmap():
    reuse = "t0 s2 free A\nt0 s1 alloc B 1M @0 pool=vouched\nt0 s1 sync_stream\nt0 unmap @0 2M"
    assert used(reuse, "vouched") == ["certain unmap: k unmap"]


def test_a_use_of_unmapped_bytes():
    assert used("t0 s2 sync_stream\nt0 unmap @0 2M\nt0 s2 launch k2 r:@0+512") == ["certain unmap: unmap k2"]
    assert used("t0 s2 sync_stream\nt0 unmap @0 2M\nt0 map @0 2M\nt0 s2 launch k2 r:@0+512") == []


def test_a_driver_free_waits_which_orders_it_and_nothing_else():
    assert used("t0 release @0 2M +implied") == []
    assert used("t0 release @0 2M") == ["certain unmap: k release"]
    text = "t0 s1 launch k1 w:@0+512\nt0 release @0x100000 2M +implied\nt0 s2 launch k2 r:@0+512"
    assert found(text) == ["certain access: k1 k2"]


# 7. Two uses of overlapping bytes, at least one a write.


def views(first: str, second: str) -> list[str]:
    return found(f"t0 s1 launch k1 {first}\nt0 s2 launch k2 {second}")


def test_overlapping_views_at_different_offsets():
    assert views("w:@0+4096", "r:@2048+4096") == ["certain access: k1 k2"]


def test_disjoint_views_of_one_block():
    assert views("w:@0+2048", "w:@2048+2048") == []


def test_reads_do_not_clash_and_atomics_commute():
    assert views("r:@0+512", "r:@0+512") == []
    assert views("a:@0+512", "a:@0+512") == []
    assert views("a:@0+512", "r:@0+512") == ["certain access: k1 k2"]


def test_a_later_write_stands_for_an_earlier_one():
    text = "t0 s1 launch k1 w:@0+512\nt0 s1 launch k2 w:@0+512\nt0 s2 launch k3 r:@0+512"
    assert found(text) == ["certain access: k2 k3"]


def test_it_stands_only_for_the_bytes_that_it_wrote():
    text = "t0 s1 launch k1 w:@0+1024\nt0 s1 launch k2 w:@0+512\nt0 s2 launch k3 r:@0+1024"
    assert found(text) == ["certain access: k1 k3", "certain access: k2 k3"]


def test_a_read_does_not_stand_for_a_write():
    text = "t0 s1 launch k1 w:@0+512\nt0 s1 launch k2 r:@0+512\nt0 s2 launch k3 w:@0+512"
    assert found(text) == ["certain access: k1 k3", "certain access: k2 k3"]


def test_unknown_uses():
    assert views("?:@0+512", "w:@0+512") == ["possible access: k1 k2"]
    assert views("w:@0+512", "?:@0+512") == ["possible access: k1 k2"]
    assert views("?:@0+512", "r:@0+512") == []
    assert used("t0 s2 launch k2 ?:A\nt0 s1 free A") == ["possible free: k free", "possible free: k2 free"]


def test_weights_read_by_unknown_kernels_on_two_streams():
    assert views("?:@0+1M", "?:@0+1M") == []


# 9. Rows issued into a capture are nodes.

CAPTURE = """stream s1 nonblocking
             stream s2 nonblocking
             t0 s1 alloc W 1M @0
             t0 s1 sync_stream
             t0 s1 capture_begin c
             {nodes}
             t0 s1 capture_end g capture=c
             """


def test_a_temporary_freed_inside_a_capture():
    nodes = """t0 s1 alloc T 1M @0x100000 capture=c +graph_pool
               t0 s1 launch k1 w:T r:W capture=c
               t0 s1 free T capture=c
               t0 s1 alloc U 1M @0x100000 capture=c +graph_pool
               t0 s1 launch k2 w:U capture=c"""
    assert found(CAPTURE.format(nodes=nodes) + "t0 s1 graph_launch g\nt0 s1 graph_launch g") == []


def test_the_nodes_of_a_capture_are_checked_once():
    nodes = """t0 s1 record e capture=c
               t0 s2 wait e capture=c
               t0 s1 launch k1 w:W capture=c
               t0 s2 launch k2 r:W capture=c
               t0 s2 record f capture=c
               t0 s1 wait f capture=c"""
    text = CAPTURE.format(nodes=nodes) + "t0 s1 graph_launch g\nt0 s1 graph_launch g"
    assert found(text) == ["certain access: k1 k2"]


def test_a_graph_launch_is_one_access_by_the_union_of_its_uses():
    nodes = "t0 s1 launch k1 w:W[0:512] capture=c\nt0 s1 launch k2 w:W[512:1024] capture=c"
    text = CAPTURE.format(nodes=nodes) + "t0 s1 graph_launch g\nt0 s2 launch k3 r:W[512:1024]\nt0 s2 launch k4 r:W[2K:4K]"
    assert found(text) == ["certain access: graph_launch k3"]


def test_what_a_capture_records_is_not_work():
    nodes = "t0 s1 launch k1 w:W capture=c"
    assert found(CAPTURE.format(nodes=nodes) + "t0 s2 launch k2 r:W") == []


# 9. Every range baked in must lie in the graph's own pool, or in the block that was there at capture, alive and unmoved.


def baked(later: str) -> list[str]:
    """The verdict where `later` follows the capture of a graph that reads W and driver memory without a block, then its launch."""
    nodes = "t0 s1 launch k1 r:W r:@0x40000000+4K capture=c"
    return found(CAPTURE.format(nodes=nodes) + f"t0 s1 sync_stream\n{later}\nt0 s1 graph_launch g")


def test_a_graph_whose_blocks_are_alive_and_unmoved():
    assert baked("t0 s1 alloc V 1M @0x80000000\nt0 s1 free V\nt0 s1 alloc X 1M @0x80000000") == []


def test_a_graph_whose_block_was_freed():
    assert baked("t0 s1 free W") == ["possible free: free graph_launch"]


def test_a_graph_whose_blocks_bytes_are_another_blocks_now():
    assert baked("t0 s1 free W\nt0 s1 alloc V 1M @0") == ["certain free: free graph_launch"]
    assert baked("t0 s1 free W\nt0 s1 alloc V 512 @0") == ["certain free: free graph_launch"]


def test_a_graph_whose_bytes_were_mapped_anew():
    assert baked("t0 unmap @0 2M\nt0 map @0 2M") == ["certain unmap: unmap graph_launch"]


def test_a_graph_whose_driver_memory_was_given_back_and_taken_again():
    assert baked("t0 release @0x40000000 2M") == ["certain unmap: release graph_launch"]
    assert baked("t0 release @0x40000000 2M\nt0 reserve @0x40000000 2M") == ["certain unmap: release graph_launch"]


def test_bytes_beside_those_of_a_graph_may_go():
    assert baked("t0 release @0x40001000 2M\nt0 reserve @0x40001000 2M") == []
    assert baked("t0 s1 alloc V 4K @0x40000000") == []


def test_a_graph_of_before_is_stale_and_one_captured_anew_is_not():
    again = """t0 s1 free W
               t0 s1 alloc V 1M @0
               t0 s1 capture_begin d
               t0 s1 launch k1 r:V capture=d
               t0 s1 capture_end h capture=d
               t0 s1 graph_launch h"""
    assert baked(again) == ["certain free: free graph_launch"]
    assert (
        baked(
            again.replace("t0 s1 free W", "t0 s1 alloc Y 1M @0x90000000").replace("alloc V 1M @0\n", "alloc V 1M @0xa0000000\n")
        )
        == []
    )
