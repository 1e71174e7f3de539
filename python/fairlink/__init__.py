"""fairlink: share a network link among a tree of traffic classes, and know the outcome before.

```python
import fairlink

link = fairlink.Link.from_file("office.toml")
print(link.check()["voice"].bounds.delay_bound_s)      # seconds
print(link.rates({"voice": 2e6, "web": float("inf")}))  # bit/s
print(fairlink.simulate("office.toml", scheduler="htb")["voice"].delay_s.p99)
```

Numbers are in base units: bit/s, bytes, seconds. docs/python.md is the manual.
"""

from . import documents
from ._engine import VERSION as __version__
from ._campaigns import Campaign, Sweep, sweep
from ._claims import Claim, Claims, Paper, Reproduction, claims, reproduce
from ._engine import Demand
from ._errors import Incomplete, MissingExtra, Refused
from ._link import ClassInfo, Import, Link, Tree, import_config, schedulers
from ._plots import plot_style
from ._results import Check, Diff, Explanation, Fluid, Result, Schedulers, Sim
from ._scenario import Scenario, Simulation, simulate
from ._trace import Trace

__all__ = [
    "Campaign",
    "Check",
    "Claim",
    "Claims",
    "ClassInfo",
    "Demand",
    "Diff",
    "Explanation",
    "Fluid",
    "Import",
    "Incomplete",
    "Link",
    "MissingExtra",
    "Paper",
    "Refused",
    "Reproduction",
    "Result",
    "Scenario",
    "Schedulers",
    "Sim",
    "Simulation",
    "Sweep",
    "Trace",
    "Tree",
    "__version__",
    "claims",
    "documents",
    "import_config",
    "plot_style",
    "reproduce",
    "schedulers",
    "simulate",
    "sweep",
]
