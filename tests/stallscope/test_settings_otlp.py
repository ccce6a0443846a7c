"""Settings of OTLP: off unless asked for, and refused where they cannot work."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallscope.errors import SettingsError
from stallscope.settings import OtlpSettings, load, resolve
from stallscope.settings_render import effective


def test_everything_is_off_by_default(tmp_path: Path) -> None:
    found = load(None, {"HOME": str(tmp_path)}, {}).otlp
    assert found == OtlpSettings()
    assert not found.http_enabled
    assert not found.grpc_enabled
    assert found.export_endpoint is None
    assert (found.listen_address, found.http_port, found.grpc_port) == ("127.0.0.1", 4318, 4317)


def test_the_environment_sets_them(tmp_path: Path) -> None:
    env = {
        "HOME": str(tmp_path),
        "STALLSCOPE_OTLP_HTTP_ENABLED": "true",
        "STALLSCOPE_OTLP_HTTP_PORT": "14318",
        "STALLSCOPE_OTLP_EXPORT_ENDPOINT": "https://otel.example:4318",
    }
    found = load(None, env, {}).otlp
    assert (found.http_enabled, found.http_port) == (True, 14_318)
    assert found.export_endpoint == "https://otel.example:4318"


def test_another_address_needs_a_token(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    open_to_all = {"otlp.listen_address": "0.0.0.0"}  # noqa: S104 - must be refused
    with pytest.raises(SettingsError, match=r"otlp\.listen_address = '0\.0\.0\.0' is not loopback"):
        load(None, env, open_to_all)
    found = load(None, env, {**open_to_all, "collect.token": "t"})
    assert found.otlp.listen_address == "0.0.0.0"  # noqa: S104 - with a token


@pytest.mark.parametrize(
    "url", ["otel:4318", "ftp://otel", "http://", "http://otel:99999", "http://[::1", "http://x:0"]
)
def test_an_endpoint_that_is_no_address_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(SettingsError, match=r"otlp\.export_endpoint = .* is no http or https"):
        load(None, {"HOME": str(tmp_path)}, {"otlp.export_endpoint": url})


@pytest.mark.parametrize("headers", ["Bearer secret", "a=1,secret", "=secret", "a=1,,b=2"])
def test_headers_without_names_are_refused_and_not_shown(tmp_path: Path, headers: str) -> None:
    with pytest.raises(SettingsError, match="want name=value") as refused:
        load(None, {"HOME": str(tmp_path)}, {"otlp.export_headers": headers})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("headers", ["authorization=Bearer abc=", "a=1, b=2", "a="])
def test_headers_with_names_are_taken_and_never_shown(tmp_path: Path, headers: str) -> None:
    resolved = resolve(None, {"HOME": str(tmp_path)}, {"otlp.export_headers": headers})
    assert resolved.problems == ()
    (row,) = [one for one in effective(resolved) if one["key"] == "otlp.export_headers"]
    assert row["value"] == "(set)"
