"""Published results of nvbandwidth: read as the program prints them, and judged by their link."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

import pytest

from collector.calibration.nvbandwidth import TESTS, parse_text
from collector.calibration.plausibility import check_rates
from collector.calibration.rates import MeasureError, Rates
from collector.link_capacity import LinkState
from tests.calibration.nvbandwidth_output import text_output

_NAMES = {test: key for key, test in TESTS.items()}


def _machines(corpus: Path) -> dict[str, dict[str, list[str]]]:
    """Return figures by test by machine; lines that are cut off are left out."""
    file = corpus / "gpu/nvml-text/nvbandwidth-h2d-d2h.txt"
    machines: dict[str, dict[str, list[str]]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            machines[line.lstrip("# ")] = {}
        elif "..." not in line:
            test, *figures = line.split()
            machines[list(machines)[-1]][test] = figures
    return machines


def _rates(machine: dict[str, list[str]]) -> Iterator[Rates]:
    """Yield the rates of each GPU that has both directions, through the program's own text."""
    tests = {test: figures for test, figures in machine.items() if test in _NAMES}
    if not {TESTS["rx"], TESTS["tx"]} <= tests.keys():
        return
    for index in range(len(tests[TESTS["rx"]])):
        text = text_output({test: [figures[index]] for test, figures in tests.items()})
        yield parse_text(text).rates


def _states(machines: dict[str, dict[str, list[str]]]) -> Iterator[tuple[LinkState, Rates]]:
    for name, machine in machines.items():
        if generation := re.search(r"Gen(\d)", name):
            for rates in _rates(machine):
                yield LinkState(int(generation[1]), 16), rates


def test_every_figure_is_read_as_it_is_written(corpus: Path) -> None:
    for machine in _machines(corpus).values():
        for index, rates in enumerate(_rates(machine)):
            read = dict(zip(TESTS, astuple(rates), strict=True))
            written = {key: machine.get(test, [""] * 9)[index] for key, test in TESTS.items()}
            assert {key: f"{value / 1e9:.2f}" for key, value in read.items() if value} == {
                key: value for key, value in written.items() if value
            }


def test_links_of_pcie_are_plausible_and_near_what_is_usual(corpus: Path) -> None:
    found = list(_states(_machines(corpus)))
    assert len(found) >= 15
    for state, rates in found:
        check_rates(rates, state)
        assert state.usable is not None
        # the usual ceiling is that of the slower direction; cards differ by some percent
        assert rates.rx == pytest.approx(state.usable, rel=0.09)
        assert rates.tx > 0.99 * rates.rx
        assert (rates.rx_together or 0) < rates.rx


def test_a_link_that_is_no_pcie_is_implausible_as_one(corpus: Path) -> None:
    (rates,) = (
        rates
        for name, machine in _machines(corpus).items()
        if "C2C" in name
        for rates in _rates(machine)
    )
    with pytest.raises(MeasureError, match=r"337\.55 GB/s"):
        check_rates(rates, LinkState(5, 16))
