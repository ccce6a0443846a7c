from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.edges.nvml_errors import (
    Code,
    NvmlError,
    decides,
    ends_gpu,
    ends_library,
    is_lasting,
    is_our_fault,
    state_for,
    trouble_for,
)
from collector.edges.nvml_values import (
    clean_amount,
    clean_generation,
    clean_percent,
    clean_u32,
    clean_u64,
    clean_width,
)
from collector.nvml.growth import Growth
from collector.nvml.link_exceptions import LinkTraits, judge_link
from collector.nvml.messages import GpuState, TroubleKind
from collector.pci_text import normalise_address


@pytest.mark.parametrize("mark", [0xFFFFFFFF, 0xFFFFFFF0, 0x7FFFFFF0, 0x7FFFFFF3])
def test_marks_of_32_bits_are_no_value(mark: int) -> None:
    assert clean_u32(mark) is None


@pytest.mark.parametrize(
    "mark", [2**64 - 1, 0xFFFFFFFFFFFFFFF0, 0x7FFFFFFFFFFFFFF0, 9223372036854775794]
)
def test_marks_of_64_bits_are_no_value(mark: int) -> None:
    """The last is what slurm-job-exporter#30 showed as bytes."""
    assert clean_u64(mark) is None


@pytest.mark.parametrize("mark", [2.0**47, 2.0**47 + 2, math.nan, math.inf, -math.inf, -1.0, 2e19])
def test_marks_among_doubles_are_no_value(mark: float) -> None:
    assert clean_amount(mark) is None


@given(st.integers(0, 0x7FFFFFEF))
def test_other_numbers_stay(value: int) -> None:
    assert clean_u32(value) == clean_u64(value) == value
    assert clean_amount(float(value)) == value


def test_amounts_beyond_the_mark_are_amounts() -> None:
    """140 TB since the reboot pass within hours."""
    assert clean_amount(2.0**47 + 4096) == 2.0**47 + 4096
    assert clean_amount(0.0) == 0


@pytest.mark.parametrize(("percent", "ratio"), [(0, 0), (37, 0.37), (100, 1), (101, None)])
def test_percentages_end_at_100(percent: int, ratio: float | None) -> None:
    assert clean_percent(percent) == ratio


@pytest.mark.parametrize("value", [None, 0, 16, 255, 0xFFFF])
def test_no_generation_is_no_value(value: int | None) -> None:
    assert clean_generation(value) is None


@pytest.mark.parametrize("value", [None, 0, 3, 63, 255])
def test_what_no_link_has_is_no_width(value: int | None) -> None:
    assert clean_width(value) is None


def test_links_of_today_and_tomorrow_have_generation_and_width() -> None:
    assert [clean_generation(value) for value in (1, 5, 7)] == [1, 5, 7]
    assert [clean_width(value) for value in (1, 2, 4, 8, 12, 16, 32)] == [1, 2, 4, 8, 12, 16, 32]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),  # behind Intel VMD and on Grace
        ("0009:01:00.0", "0009:01:00.0"),
        ("", None),
        ("N/A", None),
        ("../../../etc/passwd", None),
        ("0000:../x", None),
    ],
)
def test_addresses_are_spelt_like_in_sysfs(text: str, address: str | None) -> None:
    assert normalise_address(text) == address


def test_growth_of_what_is_new_or_fell_is_unknown() -> None:
    growth = Growth()
    assert growth.note({"a": 5, "b": 7}) == {}
    assert growth.note({"a": 9, "b": 3, "c": 1}) == {"a": 4}
    assert growth.note({"b": 4}) == {"b": 1}
    assert growth.note({"a": 10}) == {}


def test_an_ordinary_link_is_fit_to_be_measured() -> None:
    traits = LinkTraits("NVIDIA L4", None, 0, 4, 16)
    assert judge_link(traits, "6.8.0-45-generic") == (GpuState.OK, "")


@pytest.mark.parametrize("code", Code)
def test_each_code_is_one_kind_of_trouble(code: Code) -> None:
    kinds = [is_lasting(code), ends_gpu(code), ends_library(code), is_our_fault(code)]
    assert sum(kinds) <= 1
    assert decides(code) == (ends_gpu(code) or ends_library(code) or is_our_fault(code))


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (3, GpuState.UNSUPPORTED),
        (13, GpuState.UNSUPPORTED),
        (4, GpuState.NO_PERMISSION),
        (15, GpuState.GPU_LOST),
        (16, GpuState.GPU_LOST),
        (999, GpuState.GPU_LOST),
        (21, GpuState.UNSUPPORTED),
        (10, GpuState.SOURCE_BROKEN),  # NVML_ERROR_TIMEOUT: it has it, and does not tell
    ],
)
def test_codes_make_states(code: int, state: GpuState) -> None:
    assert state_for(code) is state


def test_trouble_says_what_failed_and_what_to_do() -> None:
    trouble = trouble_for(NvmlError(999, "nvmlInit", "Unknown Error"))
    assert (trouble.kind, trouble.code) == (TroubleKind.ACCESS_LOST, 999)
    assert trouble.text.startswith("nvmlInit: Unknown Error (999); ")
    assert "device cgroup" in trouble.text
    assert "restart the container" in trouble.text


def test_trouble_that_nobody_foresaw_is_told_as_it_is() -> None:
    trouble = trouble_for(NvmlError(77, "nvmlInit", "NVML Error with code 77"))
    assert (trouble.kind, trouble.text) == (
        TroubleKind.FAILED,
        "nvmlInit: NVML Error with code 77 (77)",
    )
