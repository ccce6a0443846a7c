from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from dashboard import formats
from dashboard.components import ASSETS

UPLOT_SHA256 = "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"
"""SHA-256 of dist/uPlot.iife.min.js in the npm package uplot 1.6.32."""
OURS = sorted(path for path in ASSETS.glob("*.js") if path.name != "uplot.min.js")
WAYS_TO_MARKUP = [
    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
    "DOMParser", "createContextualFragment", "javascript:",
]  # fmt: skip
DASHBOARD = Path(str(files("dashboard")))


def test_uplot_is_the_published_file_and_its_licence_lies_beside_it() -> None:
    text = (ASSETS / "uplot.min.js").read_text(encoding="utf-8")
    body = text.removesuffix("export default uPlot;\n")
    assert body != text, "the one line that makes a module of it"
    assert hashlib.sha256(body.encode()).hexdigest() == UPLOT_SHA256
    assert "MIT License" in (ASSETS / "uplot.LICENSE").read_text(encoding="utf-8")


@pytest.mark.parametrize("script", OURS, ids=lambda path: path.name)
def test_no_script_makes_markup_or_code_of_data(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    assert [way for way in WAYS_TO_MARKUP if way in text] == []


@pytest.mark.parametrize("path", sorted(ASSETS.iterdir()), ids=lambda path: path.name)
def test_nothing_is_loaded_from_elsewhere(path: Path) -> None:
    text = re.sub(r"https://github\.com/leeoniya/uPlot|http://www\.w3\.org/2000/svg", "",
                  path.read_text(encoding="utf-8"))  # fmt: skip
    assert not re.search(r"(https?:)?//[a-z0-9-]+\.[a-z]{2,}", text)
    assert "@import" not in text
    assert not re.search(r"\burl\(", text)


def test_no_module_of_ours_hides_one_of_the_standard_library_or_of_our_packages() -> None:
    """Streamlit puts the folder of app.py in front of sys.path."""
    import sys  # noqa: PLC0415 - the list of names is what is tested

    names = {path.stem for path in DASHBOARD.glob("*.py")} | {
        path.name for path in DASHBOARD.iterdir() if path.is_dir() and path.name.isidentifier()
    }
    taken = set(sys.stdlib_module_names) | {"alerts", "analytics", "collector", "lab", "stallscope"}
    assert names & taken == set()


def test_the_colours_of_both_themes_name_the_same_things() -> None:
    text = (ASSETS / "theme.js").read_text(encoding="utf-8")
    dark, light = (
        set(re.findall(r"(\w+): \"#", text[text.index(f"{name}: {{") :].partition("},")[0]))
        for name in ("dark", "light")
    )
    assert dark == light
    assert {"kv_reload", "nvme_latency", "unexplained", "ink3"} <= dark


CASES = [0, 0.19, 0.1234, 1, 4.1, 9.999, 41.26, 99.96, 214, 999.6, 1_753, -3.4, 1_234_567, 1.234e-5]
EDGES_MS = [(50, 75), (0, 1), (5_000, None), (7.13, 7.27), (7.197, 7.198), (300, 500)]
SPANS_S = [0, 0.6, 9.96, 16, 59.6, 60, 256, 3_600, 32_940, 183_600]


def test_the_browser_spells_numbers_as_the_server_does() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node: apt-get install nodejs")
    told = json.dumps({"numbers": CASES, "edges": EDGES_MS, "spans": SPANS_S})
    module = json.dumps(str(ASSETS / "format.js"))
    script = (
        f"import {{ number, interval, duration, clock }} from {module}; const told = {told};"
        "console.log(JSON.stringify([told.numbers.map(number), "
        "told.edges.map(([low, high]) => interval(low, high)), told.spans.map(duration), "
        "clock(1795000000)]));"
    )
    done = subprocess.run(
        [node, "--input-type=module", "--experimental-default-type=module", "-e", script],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    numbers, edges, spans, clock = json.loads(done.stdout)
    assert numbers == [formats.number(value) for value in CASES]
    assert edges == ["50–75", "≤ 1", "> 5\u202f000", "7.13–7.27", "7.2", "300–500"]  # noqa: RUF001
    below_a_second = [edge for edge in EDGES_MS if (edge[1] or edge[0]) < 1_000]
    here = [formats.interval_parts(low * 1e3, (high or 0) * 1e3)[0] for low, high in below_a_second]
    assert here == [text.replace(" ", formats.NBSP) for text in edges if text[0] != ">"]
    assert spans == [formats.duration(seconds * 1e6) for seconds in SPANS_S]
    assert clock == "11:06:40"
