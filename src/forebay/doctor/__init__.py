"""doctor: which incident an artifact shows, with the figures that say so and what to do. It judges one moment: the first
out-of-memory error, or the end.

Figures come from views and whatif; what an incident is stands in its own file under incidents/.
"""

from forebay.doctor.artifacts import Examined, examined, gravest, odd_one, trends
from forebay.doctor.diagnose import Diagnosis, diagnose, diagnose_line
from forebay.doctor.incident import INCIDENTS
from forebay.doctor.remedies import is_priced, with_remedies

__all__ = [
    "INCIDENTS",
    "Diagnosis",
    "Examined",
    "diagnose",
    "diagnose_line",
    "examined",
    "gravest",
    "is_priced",
    "odd_one",
    "trends",
    "with_remedies",
]
