"""layouts: one small snapshot of every layout that PyTorch has written, by hand, and what a C++ pickler makes of one.

The story is the same in all of them: a 20 MiB segment; A takes 9 MiB of it; B asks for 10.5 MiB and, since only half a MiB would
be left, gets the other 11 MiB; A is freed.
"""

import struct

MIB = 1 << 20
BASE = 0x7F0000000000
A, B = BASE, BASE + 9 * MIB
ASKED_B, SIZE_B = 10 * MIB + MIB // 2, 11 * MIB
FRAMES = [{"name": "forward", "filename": "model.py", "line": 7}, {"name": "main", "filename": "run.py", "line": 3}]


def event(action, addr, size, *, stream=0, time=None, **more):
    place = {"addr": addr} if action != "oom" else {"device_free": addr}
    when = {} if time is None else {"time_us": time}
    return {"action": action, **place, "size": size, "stream": stream, **when, **more}


def story(**more):
    """The events, with what each layout adds to them."""
    return [
        event("segment_alloc", BASE, 20 * MIB, **more),
        event("alloc", A, 9 * MIB, **more),
        event("alloc", B, ASKED_B, **more),
        event("free_requested", A, 9 * MIB, **more),
        event("free_completed", A, 9 * MIB, **more),
    ]


def block(address, size, requested, state, **more):
    return {"address": address, "size": size, "requested_size": requested, "state": state, **more}


def segment(blocks, *, address=BASE, size=20 * MIB, stream=0, kind="large", **more):
    return {"device": 0, "address": address, "total_size": size, "stream": stream, "segment_type": kind, **more, "blocks": blocks}


def blocks(**more):
    return [block(A, 9 * MIB, 0, "inactive", **more), block(B, SIZE_B, ASKED_B, "active_allocated", **more)]


def bare_2022():
    """A list of segments, nothing else; blocks without addresses."""
    return [segment([{k: b[k] for k in ("size", "state")} for b in blocks()])]


def layout_2023():
    """No addresses of blocks, no frames, no pools; the frames in a history."""
    kept = [{k: b[k] for k in ("size", "requested_size", "state")} for b in blocks()]
    kept[1]["history"] = [{"addr": B, "real_size": ASKED_B, "frames": FRAMES}]
    return {"segments": [segment(kept)], "device_traces": [[event("free_completed", A, 9 * MIB)]]}


def layout_2024():
    """Times, frames and settings; no annotations."""
    segments = [segment(blocks(frames=FRAMES), segment_pool_id=(0, 0), is_expandable=False, frames=FRAMES)]
    return {
        "segments": segments,
        "device_traces": [story(time=1000, frames=FRAMES), []],
        "allocator_settings": {"max_split_size": -1, "expandable_segments": False},
    }


def layout_2025():
    """Annotations, compile context, labels; the size of an OOM and what the driver had free."""
    out = layout_2024()
    trace = [dict(e, time_us=1000 + i, compile_context="N/A", user_metadata="") for i, e in enumerate(out["device_traces"][0])]
    trace[1]["user_metadata"] = "weights"
    trace.append(event("oom", 5 * MIB, 64 * MIB, time=1010, frames=FRAMES))
    notes = [{"name": "step", "stage": "START", "device": 0, "time_us": 1001}, {"name": "step", "stage": "END", "device": 0}]
    notes[1]["time_us"] = 1004
    return {**out, "device_traces": [trace], "external_annotations": notes}


def layout_2026():
    """Every event names its pool; this one a graph's."""
    out = layout_2025()
    out["device_traces"] = [[dict(e, pool_id=(1, 0)) for e in out["device_traces"][0]]]
    out["segments"][0]["segment_pool_id"] = (1, 0)
    return out


def without_traces():
    """include_traces=False."""
    out = layout_2025()
    del out["device_traces"]
    return out


def two_devices():
    """The same story on two devices, the second one's in the gaps of the first."""
    out = layout_2025()
    first = [dict(e, time_us=1000 + 10 * i) for i, e in enumerate(out["device_traces"][0])]
    second = [dict(e, time_us=1005 + 10 * i) for i, e in enumerate(out["device_traces"][0])]
    other = {**out["segments"][0], "device": 1}
    return {**out, "device_traces": [first, second], "segments": [out["segments"][0], other]}


def expandable():
    """Pages mapped behind one another are one segment; a page in the middle goes back."""
    page = 20 * MIB
    trace = [
        event("segment_map", BASE, page),
        event("alloc", BASE, 15 * MIB),
        event("segment_map", BASE + page, 2 * page),
        event("alloc", BASE + 15 * MIB, 40 * MIB),
        event("free_requested", BASE + 15 * MIB, 40 * MIB),
        event("free_completed", BASE + 15 * MIB, 40 * MIB),
        event("segment_unmap", BASE + page, page),
    ]
    first = segment([block(BASE, 15 * MIB, 15 * MIB, "active_allocated"), block(BASE + 15 * MIB, 5 * MIB, 0, "inactive")])
    second = segment([block(BASE + 2 * page, page, 0, "inactive")], address=BASE + 2 * page)
    segments = [{**s, "is_expandable": True, "segment_pool_id": [0, 0]} for s in (first, second)]
    return {"segments": segments, "device_traces": [trace], "allocator_settings": {"expandable_segments": True}}


def ring(*, lost):
    """The 2024 layout with its first events overwritten."""
    out = layout_2024()
    return {**out, "device_traces": [out["device_traces"][0][lost:]]}


def pending(state):
    """B was freed by the program and waits for another stream."""
    out = layout_2024()
    out["device_traces"][0].append(event("free_requested", B, ASKED_B, time=1000))
    out["segments"][0]["blocks"][1]["state"] = state
    return out


def torchscript(value) -> bytes:
    """A pickle as PyTorch's C++ pickler writes it: protocol 2, strings memoised by number, large ints in eight bytes."""
    memo: dict[str, int] = {}

    def text(s):
        if s in memo:
            return b"h" + bytes([memo[s]]) if memo[s] < 256 else b"j" + struct.pack("<I", memo[s])
        memo[s] = at = len(memo)
        put = b"q" + bytes([at]) if at < 256 else b"r" + struct.pack("<I", at)
        return b"X" + struct.pack("<I", len(s.encode())) + s.encode() + put

    def number(n):
        if 0 <= n < 256:
            return b"K" + bytes([n])
        if 0 <= n < 65536:
            return b"M" + struct.pack("<H", n)
        return b"J" + struct.pack("<i", n) if -(2**31) <= n < 2**31 else b"\x8a\x08" + struct.pack("<q", n)

    def put(v):
        if isinstance(v, bool):
            return b"\x88" if v else b"\x89"
        if isinstance(v, dict):
            return b"}(" + b"".join(put(k) + put(w) for k, w in v.items()) + b"u"
        if isinstance(v, list):
            return b"](" + b"".join(map(put, v)) + b"e"
        if isinstance(v, tuple):
            return b"(" + b"".join(map(put, v)) + b"t"
        return text(v) if isinstance(v, str) else number(v) if isinstance(v, int) else b"G" + struct.pack(">d", v)

    return b"\x80\x02" + put(value) + b"."
