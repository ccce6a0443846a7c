"""nvbandwidth in its forms: JSON, the text of old versions, and what it says when it fails."""

from __future__ import annotations

import json
from dataclasses import astuple
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.calibration.nvbandwidth import (
    Nvbandwidth,
    parse_json,
    parse_text,
    samples_in,
)
from collector.calibration.rates import Measured, MeasureError, Rates
from collector.nvml.messages import GpuFacts
from tests.calibration.nvbandwidth_output import (
    D2H,
    D2H_BOTH,
    FIGURES,
    H2D,
    H2D_BOTH,
    json_output,
    printing,
    put_program,
    text_output,
)

GPU = GpuFacts(3, "GPU-3f2a", "NVIDIA H100 80GB HBM3", "0000:3b:00.0", "580.95.05")
RATES = Rates(rx=55.59e9, tx=57.29e9, rx_together=51.82e9, tx_together=49.09e9)


def _measure(program: Path) -> Measured:
    tool = Nvbandwidth(str(program), copy_seconds=6, environment={"MARK": "kept"})
    return tool.measure(GPU, lambda: None)


def test_json_is_read_with_version_and_place() -> None:
    measured = parse_json(json_output(FIGURES))
    assert _figures(measured.rates) == _figures(RATES)
    assert (measured.tool, measured.pci_address) == ("nvbandwidth v0.8", "0000:3b:00.0")


def test_text_is_read_with_version() -> None:
    measured = parse_text(text_output({name: [figure] for name, figure in FIGURES.items()}))
    assert _figures(measured.rates) == _figures(RATES)
    assert (measured.tool, measured.pci_address) == ("nvbandwidth v0.2", "")


def test_text_of_later_versions_tells_the_place() -> None:
    text = text_output({H2D: ["25.17"], D2H: ["26.31"]}, version="v0.7").replace(
        "Device 0: NVIDIA GeForce RTX 4090", "Device 0: NVIDIA A10 (00000000:9C:00)"
    )
    assert parse_text(text).pci_address == "0000:9c:00.0"


@pytest.mark.parametrize("word", ["Waived", "Error"])
def test_without_a_bidirectional_test_there_is_no_figure_together(word: str) -> None:
    measured = parse_json(json_output({**FIGURES, H2D_BOTH: word, D2H_BOTH: word}))
    assert _figures(measured.rates) == _figures(Rates(rx=55.59e9, tx=57.29e9))


def test_a_test_without_figure_is_named_with_its_state() -> None:
    with pytest.raises(MeasureError, match=rf"no figure for {D2H} \(Error\)"):
        parse_json(json_output({**FIGURES, D2H: "Error"}))
    with pytest.raises(MeasureError, match=rf"no figure for {H2D}$"):
        parse_text(text_output({H2D: ["N/A"], D2H: ["57.29"]}))


def test_figures_of_several_gpus_are_nobodys() -> None:
    text = text_output({H2D: ["25.50", "24.26"], D2H: ["26.77", "26.47"]})
    with pytest.raises(MeasureError, match="saw 2 GPUs"):
        parse_text(text)


@given(st.text() | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(json.dumps))
def test_whatever_is_printed_is_read_or_refused(text: str) -> None:
    for parse in (parse_json, parse_text):
        with pytest.raises(MeasureError):
            parse(text)


@pytest.mark.parametrize(
    "told",
    [
        [],
        {"nvbandwidth": []},
        {"nvbandwidth": {"testcases": 5}},
        {"nvbandwidth": {"testcases": [{"name": H2D, "bandwidth_matrix": 7}]}},
        {"nvbandwidth": {"testcases": [{"name": H2D, "bandwidth_matrix": [[]]}]}},
        {"nvbandwidth": {"testcases": [{"status": "Passed"}]}},
        {"nvbandwidth": {"testcases": None}},
    ],
    ids=json.dumps,
)
def test_json_of_another_form_is_refused(told: object) -> None:
    with pytest.raises(MeasureError, match=r"another form|no figure"):
        parse_json(json.dumps(told))


def test_only_the_gpu_that_is_meant_is_shown_to_it(tmp_path: Path) -> None:
    program = put_program(
        tmp_path,
        "visible = os.environ['CUDA_VISIBLE_DEVICES'], os.environ['MARK']\n"
        f"wanted = [word for test in {list(FIGURES)} for word in ('-t', test)]\n"
        "ok = visible == ('GPU-3f2a', 'kept') and WORDS[-8:] == wanted and '-j' in WORDS\n"
        f"sys.stdout.write({json_output(FIGURES)!r} if ok else '')",
    )
    assert _figures(_measure(program).rates) == _figures(RATES)


def test_a_version_that_knows_no_json_is_asked_again(tmp_path: Path) -> None:
    text = text_output({name: [figure] for name, figure in FIGURES.items()})
    program = put_program(
        tmp_path,
        "if '-j' in WORDS or '-i' in WORDS:\n"
        "    sys.stdout.write('ERROR: Invalid Arguments :\\n\\nnvbandwidth CLI:\\n')\n"
        f"    sys.exit(1)\n{printing(text)}",
    )
    measured = _measure(program)
    assert _figures(measured.rates) == _figures(RATES)
    assert measured.tool == "nvbandwidth v0.2"


def test_its_own_error_is_passed_on(tmp_path: Path) -> None:
    failed = json.dumps({"nvbandwidth": {"error": "CUDA_ERROR_NO_DEVICE: no device is detected"}})
    with pytest.raises(MeasureError, match="no device is detected; it ended with status 1"):
        _measure(put_program(tmp_path, printing(failed, status=1)))


def test_what_it_wrote_to_stderr_is_passed_on(tmp_path: Path) -> None:
    body = "sys.stderr.write('libcudart.so.13: cannot open shared object file\\n')\nsys.exit(127)"
    with pytest.raises(MeasureError, match=r"status 127: libcudart\.so\.13"):
        _measure(put_program(tmp_path, body))


def test_a_program_that_is_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MeasureError, match="cannot be started"):
        _measure(tmp_path / "nvbandwidth")


@pytest.mark.parametrize(("seconds", "samples"), [(1, 3), (6, 4), (60, 44)])
def test_seconds_become_samples(seconds: float, samples: int) -> None:
    """Four tests copy 34.4 GB a sample, which takes 1.4 s at 25 GB/s."""
    assert samples_in(seconds) == samples


def _figures(rates: Rates) -> list[float | None]:
    """Return the figures in GB/s, rounded: 55.59 * 1e9 is no whole number."""
    return [None if rate is None else round(rate / 1e9, 6) for rate in astuple(rates)]
