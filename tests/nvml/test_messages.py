from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.nvml.messages import (
    Flow,
    GpuFacts,
    GpuState,
    Greeting,
    LinkAnswer,
    LinkSample,
    MessageError,
    Method,
    Probe,
    StateAnswer,
    StateSample,
    Trouble,
    TroubleKind,
    decode,
    encode,
)

PROBES = (Probe(Method.GPM_RATE, "works", 900), Probe(Method.THROUGHPUT, "not tried"))
GREETING = Greeting(
    None, "595.45.04", "13.595", 2, (GpuFacts(0, "GPU-a", "H100", None, "595", 5, probes=PROBES),)
)
LINK = LinkAnswer(
    None,
    (
        LinkSample(
            "GPU-a",
            GpuState.OK,
            "",
            Method.GPM_RATE,
            17,
            4,
            1_000_000,
            rx=Flow(None, 3e9, 1.0),
            tx=Flow(5, 1e9, 0.5),
            probes=PROBES,
        ),
    ),
)
STATE = StateAnswer(
    Trouble(TroubleKind.FAILED, "starting anew"),
    (StateSample("GPU-a", GpuState.OK, "", 17, 4, values={"power_watts": 1.5}, compute_pids=(7,)),),
)


def test_what_is_sent_arrives() -> None:
    assert decode(Greeting, encode(GREETING)) == GREETING
    assert decode(LinkAnswer, encode(LINK)) == LINK
    assert decode(StateAnswer, encode(STATE)) == STATE


def test_a_message_is_one_line_that_names_every_field() -> None:
    line = encode(LINK)
    assert line.count(b"\n") == 1
    assert json.loads(line) == json.loads(json.dumps(asdict(LINK)))


def test_a_value_that_json_has_no_word_for_is_not_sent() -> None:
    sample = LINK.samples[0]
    with pytest.raises(ValueError, match="JSON"):
        encode(LinkAnswer(None, (replace(sample, rx=Flow(None, float("nan"))),)))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"trouble":null}',
        encode(GREETING),
        b'{"samples":[{}]}',
        b"\xff",
    ],
)
def test_another_line_is_refused_in_words(line: bytes) -> None:
    with pytest.raises(MessageError, match="not a LinkAnswer"):
        decode(LinkAnswer, line)


@given(cut=st.integers(0, len(encode(LINK)) - 3))
def test_a_line_that_was_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(MessageError):
        decode(LinkAnswer, encode(LINK)[:cut])
