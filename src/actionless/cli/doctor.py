"""Print what a bug report needs: versions, devices, threads, memory, extras, and how fast this machine is.

It takes about ten seconds, five of them to measure the speed. Your home directory is shown as ~, and the name of the
current directory is not shown. The exit code is 2 if a required package or directory does not work.

examples:
  actionless doctor
  actionless doctor --json
"""

import dataclasses
import json as json_module
from typing import TYPE_CHECKING

from actionless.errors import ActionlessError

if TYPE_CHECKING:
    from actionless.doctor import Directory, Examination


@dataclasses.dataclass(frozen=True)
class Command:
    json: bool = False
    """Print everything as one JSON object."""

    def run(self) -> None:
        """Examine, print, and raise an error if something must be fixed."""
        from actionless.doctor import examine

        examination = examine()
        if self.json:
            print(json_module.dumps(dataclasses.asdict(examination), indent=2, ensure_ascii=False))
        else:
            print("\n".join(_lines(examination)))
        if examination.trouble:
            raise ActionlessError("; ".join(examination.trouble))


def _lines(examination: "Examination") -> list[str]:
    """Sections of aligned lines, as they are pasted into a bug report."""
    sections = {
        "versions": {name: version or "absent" for name, version in examination.versions.items()},
        "machine": _machine(examination),
        "extras": {
            extra: ", ".join(f"{package} {version}" for package, version in packages.items())
            if None not in packages.values()
            else f"absent: pip install 'actionless[{extra}]'"
            for extra, packages in examination.extras.items()
        },
        "environment": examination.environment or {"variables": "no relevant variable is set"},
        "speed": _speed(examination),
    }
    width = max(len(name) for section in sections.values() for name in section)
    lines = []
    for title, section in sections.items():
        lines += [title, *(f"  {name:<{width}}  {value}" for name, value in section.items())]
    return lines


def _machine(examination: "Examination") -> dict[str, str]:
    return {
        **examination.machine,
        "threads": f"{examination.threads or 'unknown'} of {examination.cores} cores",
        "memory": f"{examination.memory_gb:.1f} GB{_mapped_beyond(examination.memory_limit_gb)}",
        "devices": ", ".join(examination.devices) or "none",
        **{f"{name} directory": _place(directory) for name, directory in examination.directories.items()},
    }


def _place(directory: "Directory") -> str:
    if directory.free_gb is None:
        return "cannot be written to"
    return f"{'' if directory.path is None else directory.path + ', '}writable, {directory.free_gb:.1f} GB free"


def _mapped_beyond(limit_gb: float | None) -> str:
    return "" if limit_gb is None else f"; logs of more than {limit_gb:.1f} GB are memory-mapped"


def _speed(examination: "Examination") -> dict[str, str]:
    speed = examination.speed
    if speed is None:
        return {"products": "not measured", "updates": "not measured"}
    return {
        "products": f"{speed.matmul_gflops:.0f} GFLOP/s ({speed.matmul})",
        "updates": f"{speed.updates_per_second:.0f} per second ({speed.updates})",
        "cores busy": f"{speed.cores_busy:.1f} of {examination.cores}{_others(speed.cores_busy)}",
    }


def _others(cores_busy: float) -> str:
    """Even one thread keeps a whole core busy, unless other processes use it too."""
    return "; other processes were running, so these figures are too low" if cores_busy < 0.9 else ""
