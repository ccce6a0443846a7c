"""The tree between CPU and GPU as a chart for st.echarts_chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dashboard import formats
from dashboard.copy_path_links import Speed
from dashboard.copy_path_topology import KINDS, Node, Topology
from dashboard.copy_path_words import link_now

_SHAPES = {
    "numa": "rect",
    "root": "roundRect",
    "bridge": "roundRect",
    "gpu": "circle",
    "nvme": "diamond",
    "nic": "triangle",
    "process": "arrow",
}
_ROW_PX = 34
_LEAST_PX = 180
_LONGEST = 34


def tree(topology: Topology, colours: Mapping[str, str]) -> dict[str, Any]:
    """Return the option object of ECharts for the tree from CPUs to devices.

    Bridges with one device below and nothing to say are left out; the list has them.

    Args:
        topology: The newest look.
        colours: Colours of the theme.
    """
    below = topology.children()
    marked = {finding.subject for finding in topology.findings if finding.severity == "warning"}
    data = [item for node in below.get("", ()) for item in _branch(node, below, marked, colours)]
    return {
        "animation": False,
        "series": [
            {
                "type": "tree",
                "data": [{"name": "host", "children": data, **_look("numa", colours)}],
                "left": 40,
                "right": 190,
                "top": 6,
                "bottom": 6,
                "orient": "LR",
                "edgeShape": "polyline",
                "expandAndCollapse": False,
                "roam": False,
                "lineStyle": {"color": colours["ink3"], "width": 1.2},
                "label": {
                    "position": "top",
                    "distance": 5,
                    "align": "center",
                    "color": colours["ink2"],
                    "fontSize": 12,
                },
                "leaves": {"label": {"position": "right", "align": "left"}},
                "tooltip": {"show": False},
            }
        ],
    }


def _branch(
    node: Node, below: Mapping[str, Sequence[Node]], marked: set[str], colours: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return a node with what hangs below it, or only that where the node says nothing."""
    children = [
        item
        for child in below.get(node.address, ())
        for item in _branch(child, below, marked, colours)
    ]
    if node.kind == "bridge" and len(children) < 2 and node.address not in marked:  # noqa: PLR2004 - a fork
        return children
    if node.kind == "root" and not children and node.address not in marked:
        return []
    warned = node.address in marked
    return [
        {
            "name": _label(node) + (" ●" if warned else ""),
            "children": children,
            **_look(node.kind, colours, warned=warned),
        }
    ]


def _label(node: Node) -> str:
    """Return a node's name, and its link where it has one."""
    name = node.name if len(node.name) <= _LONGEST else f"{node.name[: _LONGEST - 1]}…"
    if node.kind in {"root", "bridge"}:
        name = f"{KINDS[node.kind]} {name.removeprefix('0000:')}"
    if node.speed.generation is None or node.kind == "root":
        return name
    return f"{name}, {link_now(Speed(node.speed.generation, node.speed.width, None, None))}"


def _look(kind: str, colours: Mapping[str, str], *, warned: bool = False) -> dict[str, Any]:
    """Return shape and colours of a node."""
    colour = colours["warn"] if warned else colours["ink3"]
    label = {"label": {"color": colours["warn"]}} if warned else {}
    return {
        "symbol": _SHAPES.get(kind, "emptyCircle"),
        "symbolSize": 10,
        "itemStyle": {"color": colour, "borderColor": colour},
        **label,
    }


def height(topology: Topology) -> int:
    """Return the height of the tree in pixels."""
    below = topology.children()
    leaves = sum(node.address not in below for node in topology.nodes)
    return max(_LEAST_PX, _ROW_PX * leaves)


def alternative(topology: Topology) -> str:
    """Return the tree in one sentence."""
    kinds = [
        formats.count(sum(node.kind == kind for node in topology.nodes), word, f"{word}s")
        for kind, word in KINDS.items()
        if any(node.kind == kind for node in topology.nodes)
    ]
    return f"Tree of {formats.joined(kinds)}. The list below it says the same."
