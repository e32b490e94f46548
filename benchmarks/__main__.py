"""All benchmarks, one after another, as one JSON object: `make bench`, or `python -m benchmarks NAME ...` for some."""

import json
import pkgutil
import sys
from pathlib import Path

from benchmarks.measure import in_fresh_process

NOT_BENCHMARKS = {"__main__", "measure"}


def main(chosen: list[str]) -> None:
    """Run the benchmarks whose names are given, or all of them; each prints its own JSON object."""
    found = sorted(module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    names = chosen or [name for name in found if name not in NOT_BENCHMARKS]
    results = {}
    for name in names:
        print(f"{name} ...", file=sys.stderr)
        results[name] = in_fresh_process(f"benchmarks.{name}")
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
