"""adversary: a program under the legal orders that hurt it most, until its answer differs, with the schedule that shows it.

Which accesses nothing orders is views' to say, running an order the simulated device's; here the two are put together.
"""

from forebay.adversary.search import Raised, Searched, search

__all__ = ["Raised", "Searched", "search"]
