"""bench: the numbers of the guide measured here, and our pool beside the allocators of others, from one run, as plain values.

How they are shown is report's; the loops that measure are native/bench's. What needs a whole training program is benchmarks/'.
"""

from forebay.bench.numbers import Figure, Numbers, measure
from forebay.bench.pairs import Compared, Pairs, compare

__all__ = ["Compared", "Figure", "Numbers", "Pairs", "compare", "measure"]
