"""What nvbandwidth prints, typed anew in its forms, and a program that prints it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

H2D, D2H = "host_to_device_memcpy_ce", "device_to_host_memcpy_ce"
H2D_BOTH = "host_to_device_bidirectional_memcpy_ce"
D2H_BOTH = "device_to_host_bidirectional_memcpy_ce"
FIGURES = {H2D: "55.59", D2H: "57.29", H2D_BOTH: "51.82", D2H_BOTH: "49.09"}
_ARROWS = {H2D: "->", D2H: "<-", H2D_BOTH: "<->", D2H_BOTH: "<->"}


def json_output(figures: Mapping[str, str], *, address: str = "00000000:3b:00") -> str:
    """Return the JSON of version 0.8 for one GPU; a figure that is a word is a status."""
    return json.dumps(
        {
            "nvbandwidth": {
                "CUDA Runtime Version": 13000,
                "Driver Version": "580.95.05",
                "GPU Device list": [f"0: NVIDIA H100 80GB HBM3 ({address}): (node-7)"],
                "git_version": "v0.8",
                "testcases": [_case(name, figure) for name, figure in figures.items()],
                "version": "v0.8",
            }
        },
        indent=3,
    )


def _case(name: str, figure: str) -> dict[str, object]:
    if figure.isalpha():
        return {"name": name, "status": figure}
    return {
        "bandwidth_description": f"memcpy CE CPU(row) {_ARROWS[name]} GPU(column) bandwidth (GB/s)",
        "bandwidth_matrix": [[figure]],
        "name": name,
        "status": "Passed",
        "sum": float(figure),
    }


def text_output(tests: Mapping[str, Sequence[str]], *, version: str = "v0.2") -> str:
    """Return the text of old versions for one or more GPUs."""
    columns = max(len(row) for row in tests.values())
    lines = [
        f"nvbandwidth Version: {version}",
        "Built from Git version: 6cefdda",
        "",
        "NOTE: This tool reports current measured bandwidth on your system.",
        "Additional system-specific tuning may be required to achieve maximal peak bandwidth.",
        "",
        "CUDA Runtime Version: 12030",
        "Driver Version: 545.29.06",
        "",
        *(f"Device {index}: NVIDIA GeForce RTX 4090" for index in range(columns)),
        "",
    ]
    for name, row in tests.items():
        lines += [
            f"Running {name}.",
            f"memcpy CE CPU(row) {_ARROWS[name]} GPU(column) bandwidth (GB/s)",
            "  " + "".join(f"{index:10}" for index in range(len(row))),
            " 0" + "".join(f"{value:>10}" for value in row),
            "",
            f"SUM {name} 1.00",
            "",
        ]
    return "\n".join(lines)


def put_program(folder: Path, body: str) -> Path:
    """Write a program ``nvbandwidth`` into a folder; ``WORDS`` are its arguments."""
    folder.mkdir(exist_ok=True)
    path = folder / "nvbandwidth"
    path.write_text(
        f"#!{sys.executable}\nimport os, sys, time\nWORDS = sys.argv[1:]\n{body}\n", "utf-8"
    )
    path.chmod(0o755)
    return path


def printing(text: str, status: int = 0) -> str:
    """Return the body of a program that prints a text."""
    return f"sys.stdout.write({text!r})\nsys.exit({status})"
