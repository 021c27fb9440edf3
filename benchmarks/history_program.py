"""history_program: a training loop of many sizes as a history for the emulated allocator, and as the snapshot that PyTorch would leave of
it: a valid one of any length, to be measured with."""

import pickle
import random
from pathlib import Path

import numpy as np

from forebay._core.allocator import Addresses, History, Limits, SegmentAction, Step, replay_traced
from forebay.whatif.settings import apply

EVENTS = 120  # an iteration: 40 allocs, and of each the request to free it and its completion
_STACKS = 64
_BEGUN = 1_796_000_000_000_000  # µs


def program(iterations: int) -> list[tuple[int, int, int]]:
    """(step, handle, bytes): each iteration allocates activations of a random batch and length, and frees them in reverse."""
    dice, steps, handle = random.Random(1), [], 0
    for _ in range(iterations):
        batch, length = dice.randint(1, 8), dice.choice([64, 128, 256, 384])
        mine = []
        for _ in range(40):
            size = batch * length * dice.choice([1, 2, 4, 64, 512, 2048])
            steps.append((int(Step.alloc), handle, size * 4))
            mine.append(handle)
            handle += 1
        steps += [(int(Step.free), h, 0) for h in reversed(mine)]
    return steps


def history(steps: list[tuple[int, int, int]]) -> History:
    """The program on one stream of the default pool."""
    table = np.array(steps, "u8")
    return History(
        step=table[:, 0].astype("u1"),
        handle=table[:, 1].astype("u4"),
        place=np.zeros(len(table), "u4"),
        bytes=table[:, 2].copy(),
        handles=int(table[:, 1].max()) + 1,
        places=[(0, 0)],
        pools=[(False, False)],
    )


def _stack(number: int) -> list[dict]:
    return [
        {"name": f"layer_{number}", "filename": "model.py", "line": number + 1},
        {"name": "step", "filename": "train.py", "line": 9},
    ]


def _events(steps: list[tuple[int, int, int]]) -> tuple[list[dict], list[tuple[int, int]]]:
    """The trace, each event a dict of its own, and the segments (address, bytes) that are there at its end."""
    ran = replay_traced(history(steps), apply("none").native(), Limits(), Addresses.driver(np.zeros(0, "u8"), np.zeros(0, "u8")))
    at, sizes, stacks, trace = ran.served_at.tolist(), {}, [_stack(n) for n in range(_STACKS)], []
    calls = iter(zip(ran.event_step.tolist(), ran.event_address.tolist(), ran.event_size.tolist(), strict=True))
    segments, call = [], next(calls, None)
    assert set(ran.event_action.tolist()) == {int(SegmentAction.alloc)}

    def say(action: str, address: int, size: int, handle: int) -> None:
        frames = stacks[handle % _STACKS]
        told = {"action": action, "addr": address, "size": size, "stream": 0, "time_us": _BEGUN + len(trace)}
        trace.append({**told, "compile_context": "N/A", "user_metadata": "", "frames": frames})

    for i, (step, handle, size) in enumerate(steps):
        while call is not None and call[0] == i:
            say("segment_alloc", call[1], call[2], handle)
            segments.append(call[1:])
            call = next(calls, None)
        if step == int(Step.alloc):
            sizes[handle] = size
            say("alloc", at[handle], size, handle)
        else:
            for action in ("free_requested", "free_completed"):
                say(action, at[handle], sizes[handle], handle)
    return trace, segments


def write_snapshot(path: Path, iterations: int) -> int:
    """Writes the snapshot of so many iterations, which end with everything freed; returns how many events it has."""
    trace, segments = _events(program(iterations))
    kept = [
        {
            "device": 0, "address": address, "total_size": size, "stream": 0, "segment_type": "small" if size <= 2**21 else "large",
            "segment_pool_id": (0, 0), "is_expandable": False, "allocated_size": 0, "active_size": 0, "requested_size": 0, "frames": [],
            "blocks": [{"address": address, "size": size, "requested_size": 0, "state": "inactive", "frames": []}],
        }
        for address, size in sorted(segments)
    ]  # fmt: skip
    with path.open("wb") as file:
        pickle.dump(
            {"segments": kept, "device_traces": [trace], "allocator_settings": {}, "external_annotations": []}, file, protocol=4
        )
    return len(trace)
