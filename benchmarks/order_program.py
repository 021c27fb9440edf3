"""order_program: a long pipeline for the order benchmark, as arrays: 8 streams, 10,000 live blocks, launches that hand blocks on."""

from __future__ import annotations

import numpy as np

from forebay.tape import Kind, Sides, Stream, StreamClass, Tape, Uses

STREAMS, BLOCKS, SIZE = 8, 10_000, 4096


def pipeline(events: int, *, seed: int = 1) -> Tape:
    """About `events` rows: each step launches on one stream (reads two blocks, writes one), hands over by record and wait to the next,
    and now and then frees a block and takes it again. Well ordered: every block belongs to one stream."""
    dice = np.random.default_rng(seed)
    kinds, streams, refs, addresses, uses = [], [], [], [], []

    def row(kind: Kind, stream: int, ref: int = 0, address: int = 0, touched: tuple[tuple[int, int], ...] = ()) -> None:
        kinds.append(kind)
        streams.append(stream)
        refs.append(ref)
        addresses.append(address)
        uses.append(touched)

    for block in range(BLOCKS):
        row(Kind.alloc, block % STREAMS, address=block * SIZE)
    picks = dice.integers(0, BLOCKS // STREAMS, (events, 3))
    for step in range(events):
        if len(kinds) >= events:
            break
        stream = step % STREAMS
        a, b, c = (int(p) * STREAMS + stream for p in picks[step])
        if step % 4 == 3:
            row(Kind.free, stream, address=c * SIZE)
            row(Kind.alloc, stream, address=c * SIZE)
        row(Kind.launch, stream, touched=((a * SIZE, 0), (b * SIZE, 0), (c * SIZE, 1)))
        if step % 2:
            row(Kind.record, stream, ref=stream)
            row(Kind.wait, (stream + 1) % STREAMS, ref=stream)
    return _tape(kinds, streams, refs, addresses, uses)


def _tape(
    kinds: list[Kind], streams: list[int], refs: list[int], addresses: list[int], uses: list[tuple[tuple[int, int], ...]]
) -> Tape:
    flat = [touch for row in uses for touch in row]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in uses])]).astype("u8")
    n = len(flat)
    touched = Uses(
        offsets,
        np.array([address for address, _ in flat], "u8"),
        np.full(n, SIZE, "u8"),
        np.array([mode for _, mode in flat], "u1"),
        np.zeros(n, "u1"),
        np.zeros(n, "u1"),
    )
    columns = {
        "kind": np.array([int(k) for k in kinds], "u1"),
        "stream": np.array(streams, "u4"),
        "ref": np.array(refs, "u4"),
        "address": np.array(addresses, "u8"),
        "size": np.full(len(kinds), SIZE, "u8"),
    }
    sides = Sides([Stream(f"s{i}", kind=StreamClass.nonblocking) for i in range(STREAMS)])
    return Tape(columns, sides, uses=touched)
