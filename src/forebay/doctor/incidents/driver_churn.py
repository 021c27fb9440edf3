"""What it is: memory that is given back to the driver and asked for again, over and over, because requests run into a limit.

Why it matters: each time the allocator waits for all streams, frees every idle segment, and then asks the driver for new ones: the step
takes many times as long, long before anything fails.

Instead: a little headroom (a smaller batch, a higher limit), or sizes that repeat.
"""

from forebay.doctor.evidence import Evidence
from forebay.doctor.figures import IncidentFigures
from forebay.doctor.saying import found
from forebay.finding import Count, Finding
from forebay.tape import Sees

NAME = "driver-churn"
NEEDS = frozenset({Sees.ALLOCS, Sees.SEGMENTS})
_LEAST = 2  # requests that gave memory back (one may be the end itself); iterations that went to the driver
_SHARE = 0.5  # of a region's later iterations


class Figures(IncidentFigures, frozen=True, kw_only=True):
    """Of rounds of a region their number and the driver calls in them; else requests that gave memory back, and the calls of the run."""

    rounds: Count | None = None
    calls: Count | None = None
    retries: Count | None = None
    driver_allocs: Count | None = None
    driver_frees: Count | None = None


def judge(e: Evidence) -> Finding | None:
    """Iterations that take memory from the driver and give it back, long after the first; or several requests that gave memory back
    before they were served."""
    rounds = e.rounds
    if rounds is not None and rounds.churned >= max(_LEAST, _SHARE * rounds.iterations):
        return found(
            NAME,
            f"{rounds.churned} of the last {rounds.iterations} rounds of {rounds.region} took memory from the driver and gave it back: "
            f"{rounds.calls / rounds.churned:.1f} calls a round",
            "take it from a pool that keeps what it has: a limit or a release threshold above what a round needs, no free between rounds",
            Figures(rounds=rounds.churned, calls=rounds.calls),
            certain=True,
        )
    if e.run is None or e.run.presses < _LEAST:
        return None
    return found(
        NAME,
        f"{e.run.presses} requests gave memory back to the driver before they were served or refused: {e.run.driver_frees} driver frees "
        f"against {e.run.driver_allocs} allocations",
        "leave headroom below the limit; `forebay whatif` shows which settings need fewer driver calls",
        Figures(retries=e.run.presses, driver_allocs=e.run.driver_allocs, driver_frees=e.run.driver_frees),
        certain=True,
        severity="warning",
    )
