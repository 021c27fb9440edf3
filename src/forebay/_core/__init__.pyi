"""The native core of forebay: one submodule a room of native/."""

from forebay._core import (
    allocator as allocator,
    bench as bench,
    cuda as cuda,
    driver as driver,
    emulate as emulate,
    ingest as ingest,
    order as order,
    paged as paged,
    pool as pool,
    tape as tape
)
