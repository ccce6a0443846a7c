"""Where a setting comes from, which source wins, and what is said when one is wrong."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stallscope.errors import SettingsError
from stallscope.settings import (
    DECLARED,
    EngineTarget,
    Resolved,
    default_lake,
    find_file,
    load,
    resolve,
)

HOME = {"HOME": "/home/ada"}


def _toml(folder: Path, text: str) -> Path:
    file = folder / "stallscope.toml"
    file.write_text(text, encoding="utf-8")
    return file


def _problems(resolved: Resolved) -> list[str]:
    return [str(problem) for problem in resolved.problems]


def test_without_any_source_the_documented_defaults_hold() -> None:
    settings = load(None, HOME, {})
    assert settings.lake.path == Path("/home/ada/.local/state/stallscope")
    assert (settings.lake.raw_hours, settings.lake.rollup_days) == (24, 30)
    assert settings.lake.raw_bytes == 10 * 1000**3
    assert settings.collect.listen_port == 9871
    assert (settings.dashboard.address, settings.dashboard.port) == ("127.0.0.1", 8501)
    assert settings.sources.block_interval_ms == settings.sources.host_interval_ms == 100
    assert settings.sources.scrape_interval_ms == 1000
    assert (settings.sql.memory_mb, settings.sql.timeout_s) == (512, 60)
    assert settings.engines == ()


def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(tmp_path: Path) -> None:
    file = _toml(tmp_path, "[lake]\nraw_hours = 2\nrollup_days = 2\nfsync = true\n")
    env = HOME | {"STALLSCOPE_LAKE_RAW_HOURS": "3", "STALLSCOPE_LAKE_ROLLUP_DAYS": "3"}
    resolved = resolve(file, env, {"lake.raw_hours": "4"})
    lake = resolved.settings.lake
    assert (lake.raw_hours, lake.rollup_days, lake.fsync) == (4, 3, True)
    assert lake.raw_bytes == 10_000_000_000
    assert [resolved.origins[f"lake.{name}"] for name in
            ("raw_hours", "rollup_days", "fsync", "raw_bytes")] == [
        "flag", "environment STALLSCOPE_LAKE_ROLLUP_DAYS", f"{file}:4", "default",
    ]  # fmt: skip


@pytest.mark.parametrize("key", DECLARED)
def test_every_setting_has_an_environment_variable_of_its_own(key: str) -> None:
    same = [one.key for one in DECLARED.values()
            if one.environment == DECLARED[key].environment]  # fmt: skip
    assert same == [key]


@given(
    key=st.sampled_from([key for key, one in DECLARED.items() if one.kind is int]),
    data=st.data(),
)
def test_a_number_means_the_same_in_a_file_and_in_the_environment(
    key: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rule = DECLARED[key].rule
    number = data.draw(st.integers(rule.low, rule.high if rule.high is not None else 2**60))
    section, name = key.split(".")
    file = _toml(tmp_path_factory.mktemp("settings"), f"[{section}]\n{name} = {number}\n")
    by_file = resolve(file, HOME, {})
    by_variable = resolve(None, HOME | {DECLARED[key].environment: str(number)}, {})
    assert by_file.values[key] == by_variable.values[key] == number
    assert by_file.problems == by_variable.problems == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[lake]\npth = 'x'", ":2: unknown setting lake.pth. Did you mean lake.path?"),
        ("[lakes]\npath = 'x'", ":1: unknown setting lakes. Did you mean lake?"),
        ("\n\nlake = 'x'", ":3: unknown setting lake. Did you mean"),
        ("[sql]\nxyzzy = 1", ":2: unknown setting sql.xyzzy."),
        ("[lake]\nraw_hours = '24'", ":2: lake.raw_hours = '24': want a whole number, without"),
        ("[lake]\nraw_hours = true", ":2: lake.raw_hours = True: want a whole number"),
        ("[lake]\nraw_hours = 1.5", ":2: lake.raw_hours = 1.5: want a whole number"),
        ("[lake]\nraw_hours = 0", ":2: lake.raw_hours = 0: want 1 to 87600"),
        ("[lake]\nraw_bytes = 5", ":2: lake.raw_bytes = 5: want at least 10000000"),
        ("[lake]\nfsync = 'true'", ":2: lake.fsync = 'true': want true or false, without quotes"),
        ("[lake]\npath = 7", ":2: lake.path = 7: want a path in quotes"),
        ("[lake]\npath = ''", ":2: lake.path = '': want a path in quotes"),
        ("[host]\nname = ' '", ":2: host.name = ' ': want a text in quotes, not empty"),
        ("[dashboard]\nport = 65536", ":2: dashboard.port = 65536: want 1 to 65535"),
        ("[discovery]\nports = 8000", ":2: discovery.ports = 8000: want a list in [ ]"),
        ("[discovery]\nports = [8000, 0]", ":2: discovery.ports = [8000, 0]: want 1 to 65535"),
        ("[engines]\nurl = 'http://h:1'", ":1: engines = {'url': 'http://h:1'}: want a list"),
        ("[[engines]]\nname = 'a'", "want name and url"),
        ("[[engines]]\nurl = 'h:8000'", "want an address such as http://127.0.0.1:8000"),
        ("[[engines]]\nurl = 'http://h:99999'", "want an address such as"),
        ("[[engines]]\nurl = 'http://[::1'", "want an address such as"),
        ("[dashboard]\naddress = '0.0.0.0'", "is not a loopback address"),
        ("[collect]\nlisten_address = '0.0.0.0'", "Set STALLSCOPE_COLLECT_TOKEN"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_file_line_key_and_way_out(
    text: str, said: str, tmp_path: Path
) -> None:
    file = _toml(tmp_path, text)
    (problem,) = _problems(resolve(file, HOME, {}))
    assert problem.startswith(str(file))
    assert said in problem
    with pytest.raises(SettingsError) as raised:
        load(file, HOME, {})
    assert str(raised.value) == problem


def test_all_problems_are_named_at_once_and_the_first_one_counts_the_others(tmp_path: Path) -> None:
    file = _toml(tmp_path, "[lake]\npth = 'x'\nraw_hours = 0\n")
    env = HOME | {"STALLSCOPE_SQL_TIMEOUT_S": "never"}
    found = _problems(resolve(file, env, {"nonsense": "1"}))
    assert len(found) == 4
    assert "environment STALLSCOPE_SQL_TIMEOUT_S: sql.timeout_s = 'never': want a" in found[2]
    assert found[3].startswith("flag: unknown setting nonsense")
    with pytest.raises(SettingsError, match="3 more: see `stallscope settings --check`"):
        load(file, env, {"nonsense": "1"})


@pytest.mark.parametrize(
    ("text", "truth"),
    [("true", True), ("1", True), ("YES", True), (" on ", True), ("false", False), ("0", False)],
)
def test_yes_and_no_in_the_environment(text: str, truth: bool) -> None:  # noqa: FBT001
    env = HOME | {"STALLSCOPE_LAKE_FSYNC": text}
    assert load(None, env, {}).lake.fsync is truth


def test_a_list_in_the_environment_is_parted_by_commas() -> None:
    env = HOME | {
        "STALLSCOPE_DISCOVERY_PORTS": "8000, 8001,",
        "STALLSCOPE_ENGINES": "chat=http://h:8000/,http://h:8001/metrics?a=b",
    }
    settings = load(None, env, {})
    assert settings.discovery.ports == (8000, 8001)
    assert settings.engines == (
        EngineTarget("chat", "http://h:8000"),
        EngineTarget("h:8001", "http://h:8001/metrics?a=b"),
    )


def test_two_engines_of_one_name_are_refused(tmp_path: Path) -> None:
    text = "[[engines]]\nname='a'\nurl='http://h:1'\n[[engines]]\nname='a'\nurl='http://h:2'\n"
    (problem,) = _problems(resolve(_toml(tmp_path, text), HOME, {}))
    assert "'a' is there twice" in problem


def test_an_empty_variable_counts_as_not_set() -> None:
    env = HOME | {"STALLSCOPE_COLLECT_TOKEN": "", "STALLSCOPE_LAKE_PATH": " "}
    assert load(None, env, {}).collect.token is None


def test_an_unknown_variable_is_refused_with_the_nearest_name() -> None:
    (problem,) = _problems(resolve(None, HOME | {"STALLSCOPE_LAKE": "/x"}, {}))
    assert "unknown setting STALLSCOPE_LAKE. Did you mean STALLSCOPE_LAKE_PATH?" in problem


@pytest.mark.parametrize(
    "variable",
    ["STALLSCOPE_TAP_SOCKET", "STALLSCOPE_CORPUS", "STALLSCOPE_CONFIG", "OTHER", "STALLSCOP_X"],
)
def test_variables_of_other_parts_are_left_alone(variable: str) -> None:
    assert resolve(None, HOME | {variable: "x"}, {}).problems == ()


def test_variables_that_kubernetes_injects_for_a_service_of_our_name_are_no_settings() -> None:
    # Services "stallscope" and "stallscope-dashboard" in the namespace of the pod.
    env = HOME | {
        "STALLSCOPE_SERVICE_HOST": "10.0.0.11",
        "STALLSCOPE_SERVICE_PORT": "9871",
        "STALLSCOPE_SERVICE_PORT_METRICS": "9871",
        "STALLSCOPE_PORT": "tcp://10.0.0.11:9871",
        "STALLSCOPE_PORT_9871_TCP": "tcp://10.0.0.11:9871",
        "STALLSCOPE_PORT_9871_TCP_ADDR": "10.0.0.11",
        "STALLSCOPE_DASHBOARD_PORT": "tcp://10.0.0.12:8501",
        "STALLSCOPE_DASHBOARD_SERVICE_PORT": "8501",
    }
    resolved = resolve(None, env, {})
    assert resolved.problems == ()
    assert resolved.settings.dashboard.port == 8501
    assert resolve(None, HOME | {"STALLSCOPE_DASHBOARD_PORT": "9"}, {}).settings.dashboard.port == 9


def test_a_token_allows_another_address_and_is_never_told() -> None:
    token = secrets.token_hex()
    env = HOME | {
        "STALLSCOPE_COLLECT_LISTEN_ADDRESS": "0.0.0.0",  # noqa: S104 - what is tested
        "STALLSCOPE_COLLECT_TOKEN": token,
    }
    assert load(None, env, {}).collect.token == token
    (problem,) = _problems(resolve(None, HOME, {"collect.token": 7}))
    assert "7" not in problem.replace("collect.token", "")
    assert "(not shown)" in problem


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_every_loopback_address_may_be_listened_on(address: str) -> None:
    flags = {"dashboard.address": address, "collect.listen_address": address}
    assert resolve(None, HOME, flags).problems == ()


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_bytes(b"\xef\xbb\xbf[lake]\nraw_hours = 5\n")
    assert load(file, HOME, {}).lake.raw_hours == 5


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[lake\n", r"not TOML: .*line 1"),
        (b"[lake]\npath = '\xe4'\n", "not UTF-8.*byte 15"),
        (b"[lake]\nfsync = true\nfsync = false\n", "not TOML"),
    ],
)
def test_a_file_that_cannot_be_understood_is_named(
    content: bytes, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "s.toml"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=said) as raised:
        load(file, HOME, {})
    assert raised.value.message.startswith(str(file))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml: No such file"):
        load(tmp_path / "none.toml", HOME, {})


def test_a_relative_path_in_a_file_is_relative_to_that_file(tmp_path: Path) -> None:
    assert load(_toml(tmp_path, "[lake]\npath = 'mine'"), HOME, {}).lake.path == tmp_path / "mine"


def test_a_relative_path_in_a_flag_is_relative_to_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(None, HOME, {"lake.path": "mine"}).lake.path == tmp_path / "mine"


@pytest.mark.parametrize(
    ("env", "lake"),
    [
        ({"HOME": "/h"}, "/h/.local/state/stallscope"),
        ({"HOME": "/h", "XDG_STATE_HOME": "/s"}, "/s/stallscope"),
        ({"HOME": "/h", "XDG_STATE_HOME": "relative"}, "/h/.local/state/stallscope"),
        ({"HOME": "/h", "STATE_DIRECTORY": "/var/lib/stallscope:/x"}, "/var/lib/stallscope"),
        ({"HOME": "/h", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "/var/lib/stallscope"),
    ],
)
def test_a_service_keeps_its_lake_in_var_lib_and_a_person_at_home(
    env: dict[str, str], lake: str
) -> None:
    assert default_lake(env) == Path(lake)


@pytest.mark.parametrize(
    ("env", "name"),
    [({"NODE_NAME": "n1", "K8S_NODE_NAME": "n2"}, "n1"), ({"K8S_NODE_NAME": "n2"}, "n2")],
)
def test_the_host_is_named_by_its_kubernetes_node(env: dict[str, str], name: str) -> None:
    assert load(None, HOME | env, {}).host.name == name
    assert load(None, HOME | env, {"host.name": "mine"}).host.name == "mine"


def test_a_settings_file_is_looked_for_in_the_environment_and_at_home(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    assert find_file(env) is None or find_file(env) == Path("/etc/stallscope/stallscope.toml")
    personal = tmp_path / ".config/stallscope/stallscope.toml"
    personal.parent.mkdir(parents=True)
    personal.write_text("", encoding="utf-8")
    assert find_file(env) == personal
    assert find_file(env | {"XDG_CONFIG_HOME": str(tmp_path / "else")}) != personal
    assert find_file(env | {"STALLSCOPE_CONFIG": "/named/by.toml"}) == Path("/named/by.toml")
