from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.engine_commands import is_spawned_child, recognise_engine, split_command
from collector.process_text import (
    ProcessStat,
    RunTime,
    parse_cgroup,
    parse_cpu_list,
    parse_schedstat,
    parse_stat,
    parse_status,
)


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("vllm serve model", "vllm"),
        ("/opt/venv/bin/python3.12 /opt/venv/bin/vllm serve model", "vllm"),
        ("python3 -m vllm.entrypoints.openai.api_server --model m", "vllm"),
        ("python -u -X dev -m vllm.entrypoints.cli.main serve m", "vllm"),
        ("VLLM::EngineCore_DP0", "vllm"),
        ("VLLM::Worker_TP3", "vllm"),
        ("python3 -m sglang.launch_server --model-path m", "sglang"),
        ("sglang serve --model-path m", "sglang"),
        ("sglang::scheduler_TP0", "sglang"),
        ("tritonserver --model-repository=/m", "triton"),
        ("/opt/tritonserver/bin/tritonserver", "triton"),
        ("/usr/bin/python3 /usr/local/bin/trtllm-serve m", "trtllm"),
        ("llama-server -m m.gguf", "llamacpp"),
        ("./build/bin/llama-server -m m.gguf", "llamacpp"),
        ("python3 -m llama_cpp.server", "llamacpp"),
        ("text-generation-launcher --model-id m", "tgi"),
        ("/usr/bin/python3 /opt/bin/text-generation-server serve m", "tgi"),
    ],
)
def test_engines_are_known_by_their_program(command: str, kind: str) -> None:
    assert recognise_engine(command.split(" ")) == kind


@pytest.mark.parametrize(
    "command",
    [
        "grep vllm",
        "vim /root/vllm",
        "tail -f vllm.log",
        "docker run image vllm serve model",
        "bash -c vllm",
        "pip install vllm",
        "python -m pip install vllm",
        "vllm bench serve --model m",
        "python3 /usr/bin/vllm chat",
        "python -m vllm.entrypoints.cli.main bench serve",
        "python -m vllm_router.app",
        "python -c import vllm",
        "python",
        "python -m",
        "python -X",
        "vllm",
        "/sbin/init",
        "",
    ],
)
def test_what_only_names_an_engine_is_none(command: str) -> None:
    assert recognise_engine(command.split(" ")) is None


def test_a_bash_script_whose_argument_is_an_engine_is_none() -> None:
    assert recognise_engine(["bash", "-c", "vllm serve model"]) is None
    assert recognise_engine([]) is None


def test_a_title_is_followed_by_what_was_left_of_the_command() -> None:
    assert split_command("VLLM::EngineCore\0\0\0\0") == ["VLLM::EngineCore"]
    assert split_command("") == []


def test_a_spawned_worker_is_told_from_the_resource_tracker() -> None:
    spawn = "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)"
    assert is_spawned_child(["python3", "-c", spawn, "--multiprocessing-fork"])
    tracker = "from multiprocessing.resource_tracker import main;main(5)"
    assert not is_spawned_child(["python3", "-c", tracker])


def test_a_command_with_blanks_and_brackets_does_not_shift_the_fields() -> None:
    rest = " ".join(str(field) for field in range(4, 53))
    stat = parse_stat(f"77 (a) b (c)) S {rest}\n")
    assert stat == ProcessStat(thread="a) b (c)", parent=4, start_ticks=22)


@pytest.mark.parametrize(
    "text", ["", "77 (a", "77 a) S 1", ")(", "77 (a) S 1 2 3", "77 (a) S x" + " 1" * 30]
)
def test_a_stat_that_is_cut_off_is_none(text: str) -> None:
    assert parse_stat(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("173846443 11422765 463\n", RunTime(173_846_443, 11_422_765, 463)),
        ("1 2", None),
        ("1 -2 3", None),
        ("", None),
    ],
)
def test_schedstat_is_time_on_cpu_time_waiting_and_slices(
    text: str, expected: RunTime | None
) -> None:
    assert parse_schedstat(text) == expected


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("0::/kubepods/pod1/c1\n", "/kubepods/pod1/c1"),
        ("4:memory:/a\n0::/b\n", "/b"),
        ("4:memory:/a\n", None),
        ("", None),
    ],
)
def test_the_v2_cgroup_is_the_line_of_hierarchy_zero(text: str, path: str | None) -> None:
    assert parse_cgroup(text) == path


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0-3,8", {0, 1, 2, 3, 8}),
        ("", set()),
        ("5", {5}),
        ("3-1", set()),
        ("x,2,-", {2}),
        ("0-99999999999", set()),
        (" 0 , 2-3 \n", {0, 2, 3}),
    ],
)
def test_cpu_lists_are_expanded(text: str, cpus: set[int]) -> None:
    assert parse_cpu_list(text) == cpus


@given(st.one_of(st.text(), st.binary().map(lambda data: data.decode("utf-8", "replace"))))
def test_no_text_makes_a_parser_raise(text: str) -> None:
    for prefix in ("", "1 (", "1 (a) S ", "0::/", "0-", "VmLck:", "Threads:\t"):
        parse_stat(prefix + text)
        parse_schedstat(prefix + text)
        parse_status(prefix + text)
        parse_cgroup(prefix + text)
        parse_cpu_list(prefix + text)
        recognise_engine(split_command(prefix + text))


@given(st.sets(st.integers(0, 300)))
def test_a_cpu_list_is_read_as_it_was_meant(cpus: set[int]) -> None:
    assert parse_cpu_list(",".join(map(str, cpus))) == cpus
