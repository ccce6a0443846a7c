"""The rows of one GPU's link: what it carried, against what it can carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from collector.gpu_roster import Gpu
from collector.link_capacity import LinkState
from collector.link_ceilings import Ceiling, LinkCeilings, Spot
from collector.link_comparison import Comparison, compare, find_contradiction, state_of
from collector.link_load import DowntrainJudge, are_both_busy
from collector.link_place import Place
from collector.nvml.messages import Flow, GpuState, LinkSample
from collector.source import Row

_U8_MAX = 2**8 - 1
_U32_MAX = 2**32 - 1
_FIRST = "first reading: a rate needs two"
_CHANGED = "the link changed during the window: it has no one ceiling"
_UNKNOWN_LINK = "generation or width of the link is unknown: no ceiling"


@dataclass(frozen=True, slots=True)
class Step:
    """What one sample came to.

    Attributes:
        row: Row of table gpu_link.
        learned: Rows of table link_ceiling.
        is_refused: The sample cannot be true and was dropped.
    """

    row: Row
    learned: tuple[Row, ...] = ()
    is_refused: bool = False


class LinkSeries:
    """One GPU's link from sample to sample.

    Args:
        ceilings: What links can achieve.
    """

    def __init__(self, ceilings: LinkCeilings) -> None:
        self._ceilings = ceilings
        self._judge = DowntrainJudge()

    def advance(self, gpu: Gpu, sample: LinkSample, place: Place) -> Step:
        """Return what one sample comes to.

        Args:
            gpu: Whose sample it is.
            sample: What was measured.
            place: Where the GPU hangs.
        """
        full_width = _full_width(gpu, place)
        base = _describe(gpu, sample, full_width)
        flows = {"rx": sample.rx, "tx": sample.tx}
        rates = {way: flow.bytes_per_second for way, flow in flows.items()}
        now = state_of(sample)
        if now is not None:
            self._judge.see(now.width)
        if sample.state is not GpuState.OK or all(rate is None for rate in rates.values()):
            return self._without_ratios(base, gpu, sample.reason or _why_not(sample))
        best = None if now is None else _best(gpu, now)
        refusal = find_contradiction(rates, best if sample.link_changed else now)
        if refusal:
            step = self._without_ratios(base, gpu, refusal)
            return Step(step.row, is_refused=True)
        row = {**base, **_carried(flows)}
        if now is None or best is None:
            return self._without_ratios(row, gpu, sample.reason or _UNKNOWN_LINK)
        if sample.link_changed:
            return self._without_ratios(row, gpu, _CHANGED)
        link = compare(now, best, _peak(rates), place.uplinks)
        row |= self._saturate(gpu.device, link, rates)
        row["link_downtrained"] = self._judge_state(link, full_width)
        return Step(row, tuple(self._learn(gpu, sample, link, flows, place)))

    def _without_ratios(self, row: Row, gpu: Gpu, reason: str) -> Step:
        """Return a row that says why something is missing; what comes next starts anew."""
        self._judge.rest()
        self._ceilings.interrupt(gpu.device)
        return Step({**row, "reason": reason})

    def _saturate(
        self, device: int, link: Comparison, rates: Mapping[str, float | None]
    ) -> dict[str, object]:
        """Return the columns that set rates against ceilings."""
        ceilings = {
            way: self._ceilings.find(Spot(device, way, link.judged), link.usual) for way in rates
        }
        alone = {way: _divide(rates[way], ceilings[way].bytes_per_second) for way in rates}
        both_busy = None
        if alone["rx"] is not None and alone["tx"] is not None:
            both_busy = are_both_busy(alone["rx"], alone["tx"])
        columns: dict[str, object] = {"both_busy": both_busy}
        for way, rate in rates.items():
            ceiling = _in_force(ceilings[way], both_busy=bool(both_busy))
            columns |= {
                f"{way}_saturation_ratio": _divide(rate, ceiling),
                f"{way}_raw_ratio": None if rate is None else rate / (link.judged.raw or 1.0),
                f"{way}_ceiling_bytes_per_second": ceiling,
                f"{way}_ceiling_kind": ceilings[way].kind,
            }
        return columns

    def _judge_state(self, link: Comparison, full_width: int | None) -> bool | None:
        """Return whether the link is slower or narrower than it could be; None while idle."""
        if not link.is_loaded:
            self._judge.rest()
            return None
        return self._judge.judge(link.now, link.best.generation, full_width)

    def _learn(
        self,
        gpu: Gpu,
        sample: LinkSample,
        link: Comparison,
        flows: Mapping[str, Flow],
        place: Place,
    ) -> list[Row]:
        """Return the ceilings that this window shows.

        Nothing is learned behind a switch: what goes between GPUs below it does not pass its
        uplink, so it shows nothing about copies to the host.
        """
        if place.uplinks:
            return []
        rows: list[Row] = []
        for way, flow in flows.items():
            spot = Spot(gpu.device, way, link.judged)
            rate, coverage = flow.bytes_per_second or 0.0, flow.coverage_ratio or 0.0
            held = self._ceilings.learn(spot, rate, coverage, link.usual)
            if held is not None:
                rows.append(_learned_row(gpu, sample, spot, held))
        return rows


def _best(gpu: Gpu, now: LinkState) -> LinkState:
    """Return a link with the lanes it has at its highest generation."""
    return LinkState(max(gpu.facts.max_generation or 0, now.generation), now.width)


def _full_width(gpu: Gpu, place: Place) -> int | None:
    """Return the most lanes of card and slot together; None when only NVML tells."""
    if place.full_width is None or not gpu.facts.max_width:
        return place.full_width
    return min(place.full_width, gpu.facts.max_width)


def _describe(gpu: Gpu, sample: LinkSample, full_width: int | None) -> dict[str, object]:
    """Return the columns that need no rates."""
    facts = gpu.facts
    return {
        "wall_us": sample.wall_us,
        "mono_us": sample.mono_us,
        "device": gpu.device,
        "window_us": None if sample.window_us is None else min(sample.window_us, _U32_MAX),
        "state": sample.state.value,
        "method": None if sample.method is None else sample.method.value,
        "link_generation": _as_u8(sample.generation),
        "link_width": _as_u8(sample.width),
        "max_link_generation": _as_u8(facts.max_generation),
        "max_link_width": _as_u8(full_width or facts.max_width),
        "call_us": min(sample.call_us, _U32_MAX),
        "reason": sample.reason or None,
    }


def _as_u8(value: int | None) -> int | None:
    """Return a value that fits its column; a driver's "no value" may be any number."""
    return value if value is not None and 0 <= value <= _U8_MAX else None


def _carried(flows: Mapping[str, Flow]) -> dict[str, object]:
    """Return the columns of what was carried."""
    columns: dict[str, object] = {}
    for way, flow in flows.items():
        columns[f"{way}_bytes"] = flow.size_bytes
        columns[f"{way}_window_mean_bytes_per_second"] = flow.bytes_per_second
    coverages = [flow.coverage_ratio for flow in flows.values() if flow.coverage_ratio is not None]
    return {**columns, "coverage_ratio": min(coverages, default=None)}


def _why_not(sample: LinkSample) -> str:
    """Return why a sample without words has no rates."""
    if sample.state is not GpuState.OK:
        return sample.state.value
    return _FIRST if sample.window_us is None else "the driver told no rate"


def _in_force(ceiling: Ceiling, *, both_busy: bool) -> float:
    if both_busy and ceiling.together is not None:
        return ceiling.together
    return ceiling.bytes_per_second


def _divide(rate: float | None, ceiling: float) -> float | None:
    """Return a rate over a ceiling, at most 1."""
    return None if rate is None or ceiling <= 0 else min(1.0, rate / ceiling)


def _peak(rates: Mapping[str, float | None]) -> float:
    return max((rate for rate in rates.values() if rate is not None), default=0.0)


def _learned_row(gpu: Gpu, sample: LinkSample, spot: Spot, held: float) -> Row:
    """Return a row of table link_ceiling."""
    return {
        "wall_us": sample.wall_us,
        "device": spot.device,
        "direction": spot.direction,
        "kind": "learned",
        "bytes_per_second": held,
        "link_generation": spot.state.generation,
        "link_width": spot.state.width,
        "driver": gpu.facts.driver or None,
    }
