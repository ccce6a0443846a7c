from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from collector.gpu_roster import Gpu
from collector.link_ceilings import LinkCeilings
from collector.link_place import Place
from collector.link_series import LinkSeries
from collector.nvml.messages import Flow, GpuState, LinkSample, Method
from stallscope.storage.rows import to_batch
from tests.collector.nvml_answers import facts
from tests.collector.stand_ins import SECOND, WALL

_RATES = st.none() | st.floats(0, 200e9) | st.sampled_from([float("nan"), float("inf"), -1.0])
_FLOWS = st.builds(
    Flow,
    size_bytes=st.none() | st.integers(0, 2**63 - 1),
    bytes_per_second=_RATES,
    coverage_ratio=st.none() | st.floats(0, 1),
)
_LANES = st.none() | st.integers(0, 2**32 - 1) | st.sampled_from([1, 4, 5, 8, 16])
_SAMPLES = st.builds(
    LinkSample,
    uuid=st.just("GPU-0"),
    state=st.sampled_from(GpuState),
    reason=st.sampled_from(["", "so it is"]),
    method=st.none() | st.sampled_from(Method),
    wall_us=st.just(WALL),
    mono_us=st.just(SECOND),
    window_us=st.none() | st.integers(1, 2**40),
    rx=_FLOWS,
    tx=_FLOWS,
    generation=_LANES,
    width=_LANES,
    link_changed=st.booleans(),
    call_us=st.integers(0, 2**40),
)


@given(
    samples=st.lists(_SAMPLES, min_size=1, max_size=8),
    max_generation=_LANES,
    full_width=st.none() | st.sampled_from([1, 8, 16]),
)
def test_whatever_the_driver_says_a_row_is_honest_and_fits_its_table(
    samples: Sequence[LinkSample], max_generation: int | None, full_width: int | None
) -> None:
    gpu = Gpu(facts(max_generation=max_generation), 1)
    series = LinkSeries(LinkCeilings(list))
    for sample in samples:
        step = series.advance(gpu, sample, Place(full_width))
        row = step.row
        to_batch("gpu_link", [row])
        to_batch("link_ceiling", step.learned)
        for way in ("rx", "tx"):
            ratio, rate = (
                row.get(f"{way}_saturation_ratio"),
                row.get(f"{way}_window_mean_bytes_per_second"),
            )
            assert ratio is None or (isinstance(ratio, float) and 0 <= ratio <= 1)
            assert rate is None or (isinstance(rate, float) and 0 <= rate < float("inf"))
            assert rate is not None or ratio is None
        if sample.state is not GpuState.OK:
            assert row.get("rx_bytes") is None
        if row.get("rx_window_mean_bytes_per_second") is None and sample.rx.bytes_per_second:
            assert row["reason"], "a rate that is left out has its reason"
