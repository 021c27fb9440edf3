"""fuzz READER [inputs] [seed] [first]: broken inputs for a reader, each made from a sound one: it answers soundly, or with one line.

Input n of a seed is always the same, so `fuzz READER 1 SEED N` runs the one that failed alone. A reader that dies or hangs takes the
program with it, whose last line says between which inputs. Prints how many of the answers were which; exit status 1 says what is wrong.
"""

import contextlib
import faulthandler
import gzip
import io
import json
import lzma
import pickle
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

import corpus
from forebay import cli, runtime
from forebay._core.tape import Extent, Kind, Mode, Recorder, Space, StreamClass
from forebay.contract import read_contract
from forebay.errors import BadInput, ForebayError
from forebay.sources import log_text, recording, tape_text, torch_snapshot, unpacked
from forebay.tape import file, parse
from forebay.whatif.settings import apply
from sources import layouts

TAPES = sorted((Path(__file__).parent / "tapes").rglob("*.tape"))
SLOWEST_S = 5.0  # processor time of one input
HANGS_S = 300.0  # wall time of a hundred
_FOLDER = tempfile.TemporaryDirectory(prefix="fuzz-")
FOLDER = Path(_FOLDER.name)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The bytes with up to 16 changes: bytes and bits turned, runs cut out, copied or set to what lengths overflow at."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(out))
        match rng.randrange(5):
            case 0:
                out[at] = rng.randrange(256)
            case 1:
                out[at] ^= 1 << rng.randrange(8)
            case 2:
                del out[at : at + rng.randrange(1, 9)]
            case 3:
                out[at:at] = out[rng.randrange(len(out)) :][: rng.randrange(1, 40)]
            case 4:
                out[at : at + 4] = rng.choice((b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f"))
        if not out:
            break
    return bytes(out)


def reworded(data: bytes, rng: random.Random) -> bytes:
    """The text with words of its own put in the place of others, doubled or left out; now and then bytes as above."""
    if rng.random() < 0.3:
        return mutated(data, rng)
    words = data.replace(b"\n", b" \n ").split(b" ")
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(words))
        words[at : at + rng.choice((0, 1, 1, 2))] = rng.choice(([rng.choice(words)], [words[at]] * 2, [_odd(rng)], []))
        words = words or [b""]
    return b" ".join(words)


def altered(data: bytes, rng: random.Random) -> bytes:
    """The snapshot with events left out, doubled, exchanged or given another action, address, size or stream: a history that cannot be."""
    value = pickle.loads(data)
    traces = [trace for trace in value["device_traces"] if trace]
    for _ in range(rng.choice((1, 2, 4, 8))):
        trace = rng.choice(traces)
        if not trace:
            continue
        at, other = rng.randrange(len(trace)), rng.randrange(len(trace))
        match rng.randrange(5):
            case 0:
                del trace[at]
            case 1:
                trace.insert(at, dict(trace[other]))
            case 2:
                trace[at], trace[other] = trace[other], trace[at]
            case 3:
                trace[at] = {**trace[at], "action": rng.choice(_ACTIONS), "device_free": rng.choice(_SIZES)}
            case 4:
                trace[at] = {**trace[at], rng.choice(("addr", "size", "stream")): rng.choice(_SIZES)}
    return pickle.dumps(value, protocol=4)


_ACTIONS = (
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "oom",
    "x",
)
_SIZES = (0, 1, 512, 2**20, 20 * 2**20, 2**30, 2**40, 2**62, 2**63, 2**64 - 1)
_ODD = (
    b"-1", b"0", b"1e309", b"nan", b"18446744073709551616", b"99999999999999999999G", b"\xff", b"\0", b'"', b"=", b"@0x", b"[", b"t0",
    b"", b"\xe2\x80\xa8",
)  # fmt: skip


def _odd(rng: random.Random) -> bytes:
    return rng.choice(_ODD)


def _tape_is_sound(tape: object) -> None:
    tape.check()  # type: ignore[attr-defined]


def _snapshot(data: bytes) -> None:
    tape = torch_snapshot.read(data)
    assert len(tape) >= sum(tape.provenance["events"])
    for name, table in (("stream", tape.sides.streams), ("pool", tape.sides.pools), ("site", tape.sides.sites)):
        assert not len(tape) or int(tape.columns[name].max()) < max(len(table), 1)
    assert (tape.final.blocks["size"] > 0).all()


def _log(data: bytes) -> None:
    assert len(log_text.read(data)) >= 1
    assert all(found.line >= 1 for found in log_text.scan(data.decode("utf-8", "replace")))


def _contract(data: bytes) -> None:
    path = FOLDER / "forebay.toml"
    path.write_bytes(data)
    read_contract(path)


def _settings(data: bytes) -> None:
    found = apply(data.decode("latin-1"))
    assert found.large_segment_size % 2**21 == 0
    assert len(found.roundup_divisions) == 16
    assert 0 <= found.gc_threshold < 1
    found.native()


def _packed_is_sound(data: bytes) -> None:
    tape_text.read(unpacked(data))


def rearranged(data: bytes, rng: random.Random) -> bytes:
    """The tape of our own runtime with rows left out, doubled or exchanged, or with another address, size, pool or stream in some; now and
    then with bytes as above."""
    if rng.random() < 0.2:
        return mutated(data, rng)
    tape = recording.read(data)
    rows = list(range(len(tape)))
    for _ in range(rng.choice((1, 2, 4, 16))):
        at, other = rng.randrange(len(rows)), rng.randrange(len(rows))
        match rng.randrange(3):
            case 0:
                del rows[at]
            case 1:
                rows.insert(at, rows[other])
            case 2:
                rows[at], rows[other] = rows[other], rows[at]
    tape = tape.take(np.array(rows))
    columns = dict(tape.columns)
    for name in rng.sample(("address", "size", "requested", "pool", "stream"), rng.randrange(3)):
        columns[name] = columns[name].copy()
        some = rng.choice(_SIZES) if name in ("address", "size", "requested") else rng.randrange(5)
        columns[name][rng.randrange(len(tape))] = some % 2 ** (8 * columns[name].itemsize)
    changed = replace(tape, columns=columns, picked=None)
    path = FOLDER / "own.arrow"
    try:
        file.write(changed, path)
    except ForebayError:
        return data
    return path.read_bytes()


@cache
def _own() -> list[bytes]:
    path = FOLDER / "run.arrows"
    with runtime.recording(path):
        device = runtime.SimDevice("64MiB")
        stream, other = device.stream("s"), device.stream("t")
        pools = [runtime.Pool(device, "a", "24MiB"), runtime.Pool(device, "b", growth="frames")]
        pages = runtime.PagedPool(device, "kv", "4MiB", page_bytes=2**20, page_tokens=16)
        pages.open(stream, []).grow(20, stream)
        held = [pools[n % 2].alloc((n % 5 + 1) * 2**20, (stream, other)[n % 3 == 0]) for n in range(9)]
        for buffer in held[::2]:
            buffer.free()
        pools[0].trim()
        with contextlib.suppress(ForebayError):
            pools[0].alloc(20 * 2**20, stream)
        for buffer in held[1::2]:
            buffer.free()
    return [path.read_bytes()]


def _commands(data: bytes) -> None:
    """The whole way of `whatif` and `doctor`: a status, and where it is 2 one line."""
    path = FOLDER / "broken.pickle"
    path.write_bytes(data)
    for command in ("whatif", "doctor"):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cli.run([command, str(path), "--format", "json"])
        if status == 2:
            assert (err.getvalue().count("\n"), out.getvalue()) == (1, ""), err.getvalue()
        else:
            assert status in (0, 1)
            json.loads(out.getvalue())
    if status == 2:
        raise BadInput("refused")


@cache
def _snapshots() -> list[bytes]:
    made = (layouts.layout_2025, layouts.expandable, layouts.two_devices)
    return [pickle.dumps(make(), protocol=protocol) for make in made for protocol in range(5)]


@cache
def _logs() -> list[bytes]:
    lines = [
        json.loads(line)["text"] for path in corpus.artifacts("oom", "messages.jsonl") for line in path.read_text().splitlines()
    ]
    told = "CUDA out of memory. Tried to allocate 16.00 GiB (GPU 0; 11.93 GiB total capacity; 4.00 GiB already allocated; 7.33 GiB free)"
    return [
        text.encode()
        for text in [*lines, told, "RuntimeError: CUDA error: operation not permitted when stream is capturing (900)"]
    ]


@cache
def _closed() -> list[bytes]:
    path, out = FOLDER / "a.arrow", []
    for source in TAPES:
        file.write(parse(source.read_text()), path)
        out.append(path.read_bytes())
    return out


@cache
def _growing() -> list[bytes]:
    path = FOLDER / "a.arrows"
    recorder = Recorder(str(path), [("forebay.sees", '["edges"]'), ("forebay.provenance", '{"pid": 3}')])
    stream, site = (
        recorder.stream("s1", handle=7, kind=StreamClass.nonblocking),
        recorder.site([("a.py", 3, "f"), ("b.py", 4, "g")]),
    )
    pool = recorder.pool("kv", consumer="kv")
    for n in range(40):
        uses = [(4096 * n, 8, Mode.write, Extent.exact, Space.device)] * (n % 3)
        recorder.write(Kind.launch, uses, seq=2 * n, stream=stream, name=recorder.string(f"k{n % 4}"), site=site)
        recorder.write(Kind.alloc, seq=2 * n + 1, stream=stream, pool=pool, address=4096 * n, size=4096, cause=2 * n)
    recorder.close()
    whole = path.read_bytes()
    return [whole, whole[: len(whole) * 2 // 3]]


@cache
def _contracts() -> list[bytes]:
    return [
        b'[regions.decode]\nmatch = ["decode", "step*"]\n[order]\nbefore = ["copy.h2d -> compute.attention in decode"]\n'
        b'overlap = ["kv.store | compute.*"]\n[[allow]]\nrule = "unordered-access"\nwhere = "a/b.py:emit"\nreason = "once"\n'
        b"expires = 2027-03-01\n"
    ]


@cache
def _strings() -> list[bytes]:
    return [
        b"max_split_size_mb:64,garbage_collection_threshold:0.6,expandable_segments:True",
        b"roundup_power2_divisions:[256:1,512:2,1024:4,>:8],max_non_split_rounding_mb:64",
        b"backend:native,pinned_num_register_threads:4,large_segment_size_mb:32,per_process_memory_fraction:0.5",
    ]


@cache
def _packed() -> list[bytes]:
    text = TAPES[0].read_bytes()
    return [gzip.compress(text, mtime=0), lzma.compress(text)]


Reader = tuple[Callable[[], list[bytes]], Callable[[bytes, random.Random], bytes], Callable[[bytes], None]]
READERS: dict[str, Reader] = {
    "snapshot": (_snapshots, mutated, _snapshot),
    "log": (_logs, reworded, _log),
    "tape-text": (lambda: [path.read_bytes() for path in TAPES], reworded, lambda data: _tape_is_sound(tape_text.read(data))),
    "tape-file": (_closed, mutated, lambda data: _tape_is_sound(recording.read(data))),
    "recording": (_growing, mutated, lambda data: _tape_is_sound(recording.read(data))),
    "contract": (_contracts, reworded, _contract),
    "settings": (_strings, reworded, _settings),
    "packed": (_packed, mutated, _packed_is_sound),
    "commands": (_snapshots, mutated, _commands),
    "histories": (_snapshots, altered, _commands),
    "own-histories": (_own, rearranged, _commands),
}


SLOW = ("commands", "histories", "own-histories")  # whole commands, a hundred times as long as a reader


def answer(name: str, seed: int, number: int) -> str:
    """How a reader answered input `number`: "sound", or "refused" in one line. Raises whatever else comes out."""
    originals, change, read = READERS[name]
    rng = random.Random(f"{name} {seed} {number}")
    data = change(rng.choice(originals()), rng)
    begun = time.process_time()
    try:
        read(data)
        told = "sound"
    except ForebayError as error:
        told, line = "refused", str(error)
    assert told == "sound" or line.splitlines() == [line], repr(line)
    assert (took := time.process_time() - begun) < SLOWEST_S, f"{took:.1f} s for {len(data)} bytes"
    return told


def main() -> int:
    """Runs the inputs; `fuzz readers` names the readers, `fuzz snapshots FOLDER` writes the sound snapshots."""
    if sys.argv[1:] == ["readers"]:
        print(*(name for name in READERS if name not in SLOW))
        return 0
    if sys.argv[1:2] == ["snapshots"]:
        Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(_snapshots()):
            (Path(sys.argv[2]) / f"{number}.pickle").write_bytes(data)
        return 0
    name, inputs, seed, first = (*sys.argv[1:], *("100000", "1", "0")[len(sys.argv) - 2 :])
    counts, wrong = {"sound": 0, "refused": 0}, 0
    for number in range(int(first), int(first) + int(inputs)):
        if number % 100 == 0:
            faulthandler.dump_traceback_later(HANGS_S, exit=True)
            if sys.stdout.isatty():
                print(f"{name}: {number:,}", end="\r", flush=True)
        try:
            counts[answer(name, int(seed), number)] += 1
        except Exception:
            wrong += 1
            print(f"\n{name}, input {number} of seed {seed}:\n{traceback.format_exc()}")
            if wrong == 5:
                break
    print(f"{name}: {counts['sound']:,} sound, {counts['refused']:,} refused in one line, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
