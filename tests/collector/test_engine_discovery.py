from __future__ import annotations

import threading
from collections.abc import Mapping

from collector.edges.http_scrape import Scrape, ScrapeError
from collector.engine_discovery import OWN_PORTS, EngineDiscovery
from collector.source import State
from stallscope.settings import EngineTarget
from stallscope.settings_tree import DiscoverySettings
from tests.collector.stand_ins import SECOND, ManualClock

VLLM = b'vllm:num_requests_running{engine="0",model_name="m"} 1\n'
Answer = bytes | ScrapeError


class Ports:
    """Local ports and what answers there; counts who is asked."""

    def __init__(self, said: Mapping[str, Answer]) -> None:
        self.said = dict(said)
        self.asked: list[str] = []

    def fetch(self, url: str, deadline_us: int) -> Scrape:
        assert deadline_us <= SECOND / 2
        place = url.removeprefix("http://127.0.0.1:")
        self.asked.append(place)
        answer = self.said.get(place, REFUSED)
        if isinstance(answer, ScrapeError):
            raise answer
        return Scrape(answer, "text/plain", cut=False)

    def times(self, place: str) -> int:
        return self.asked.count(place)


REFUSED = ScrapeError(State.NOT_FOUND, "connection refused: nothing listens there", refused=True)
HTML = ScrapeError(State.NOT_FOUND, "answers with text/html, not with metrics")


def discover(
    said: Mapping[str, Answer], ports: tuple[int, ...] = (8000, 8001, 30000)
) -> tuple[EngineDiscovery, Ports, ManualClock]:
    local, clock = Ports(said), ManualClock()
    return EngineDiscovery((), ports, local.fetch, clock), local, clock


def test_engines_that_were_named_are_read_and_nothing_is_probed() -> None:
    local = Ports({})
    named = EngineTarget("prod", "http://127.0.0.1:9001")
    discovery = EngineDiscovery([named], DiscoverySettings().ports, local.fetch, ManualClock())
    assert discovery.targets() == (named,)
    assert local.asked == []
    assert discovery.answers == ()


def test_finds_engines_and_keeps_every_answer_word_for_word() -> None:
    discovery, _, clock = discover(
        {"8000/metrics": VLLM, "8001/metrics": b"python_info 1\nx 2\n", "30000/metrics": HTML}
    )
    assert discovery.targets() == (EngineTarget("vllm:8000", "http://127.0.0.1:8000/metrics"),)
    assert [(answer.port, answer.state, answer.reason) for answer in discovery.answers] == [
        (8000, State.WORKING, "found vllm"),
        (8001, State.NOT_FOUND, "answers with 2 samples, 0 engine series"),
        (30000, State.NOT_FOUND, "answers with text/html, not with metrics"),
    ]
    assert discovery.answers[0].wall_us == clock.now().wall_us


def test_every_kind_is_known_by_its_names() -> None:
    discovery, _, _ = discover(
        {
            "8000/metrics": b'sglang:num_running_reqs{model_name="m"} 1\n',
            "8001/metrics": b"tgi_queue_size 1\n",
            "30000/metrics": b'nv_inference_request_success{model="m",version="1"} 1\n',
        }
    )
    assert [target.name for target in discovery.targets()] == [
        "sglang:8000",
        "tgi:8001",
        "triton:30000",
    ]


def test_tensorrt_llm_is_found_behind_its_json() -> None:
    json = ScrapeError(State.NOT_FOUND, "answers with application/json, not with metrics")
    found = b'trtllm_num_requests_running{model_name="m"} 1\n'
    discovery, _, _ = discover({"8000/metrics": json, "8000/prometheus/metrics": found})
    assert [target.url for target in discovery.targets()] == [
        "http://127.0.0.1:8000/prometheus/metrics"
    ]
    nothing, _, _ = discover({"8000/metrics": json})
    assert nothing.targets() == ()
    assert "json" in nothing.answers[0].reason


def test_while_none_is_found_ports_are_asked_again_every_ten_seconds() -> None:
    discovery, local, clock = discover({})
    for _ in range(60):
        assert discovery.targets() == ()
        clock.advance(SECOND)
    assert local.times("8000/metrics") == 6
    local.said["30000/metrics"] = VLLM
    discovery.targets()
    assert [target.name for target in discovery.targets()] == ["vllm:30000"]


def test_a_service_that_is_no_engine_is_asked_ever_less_often() -> None:
    discovery, local, clock = discover({"8000/metrics": HTML}, (8000, 8001))
    for _ in range(3_600):
        discovery.targets()
        clock.advance(SECOND)
    assert local.times("8000/metrics") < 40
    assert local.times("8001/metrics") == 360


def test_a_port_with_an_engine_is_not_probed_but_the_others_go_on() -> None:
    discovery, local, clock = discover({"8000/metrics": VLLM})
    for _ in range(60):
        discovery.targets()
        clock.advance(SECOND)
    assert local.times("8000/metrics") == 1
    local.said["8001/metrics"] = VLLM
    discovery.targets()
    assert [target.name for target in discovery.targets()] == ["vllm:8000", "vllm:8001"]


def test_an_address_where_something_else_answers_now_is_probed_again() -> None:
    discovery, local, _ = discover({"8000/metrics": VLLM})
    (target,) = discovery.targets()
    local.said["8000/metrics"] = HTML
    discovery.lose(target.url)
    assert discovery.targets() == ()
    assert discovery.answers[0].reason == HTML.reason


def test_our_own_ports_are_never_asked() -> None:
    local = Ports({})
    ports = (*OWN_PORTS, 8000, 7777)
    discovery = EngineDiscovery((), ports, local.fetch, ManualClock(), own_ports=OWN_PORTS | {7777})
    discovery.targets()
    assert local.asked == ["8000/metrics"]


def test_says_what_every_port_said_when_there_is_nothing() -> None:
    discovery, _, _ = discover({"8001/metrics": HTML}, (8000, 8001))
    discovery.targets()
    state, reason = discovery.explain_absence()
    assert state is State.NOT_FOUND
    assert "8000: connection refused" in reason
    assert "8001: answers with text/html" in reason


def test_switched_off() -> None:
    local = Ports({"8000/metrics": VLLM})
    discovery = EngineDiscovery((), (8000,), local.fetch, ManualClock(), enabled=False)
    assert discovery.targets() == ()
    assert local.asked == []
    assert discovery.explain_absence()[0] is State.DISABLED


def test_ports_are_asked_at_the_same_time() -> None:
    barrier = threading.Barrier(3, timeout=5)

    def fetch(url: str, deadline_us: int) -> Scrape:
        del url, deadline_us
        barrier.wait()
        raise REFUSED

    assert EngineDiscovery((), (1, 2, 3), fetch, ManualClock()).targets() == ()
