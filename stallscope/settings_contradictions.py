"""Settings that are wrong together, although every value by itself is right."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping

from stallscope.errors import SettingsError
from stallscope.settings_fields import is_web_address

_TOKEN = "Set STALLSCOPE_COLLECT_TOKEN, or keep 127.0.0.1."  # noqa: S105 - advice, not a token


def find_contradictions(
    values: Mapping[str, object], origins: Mapping[str, str]
) -> list[SettingsError]:
    """Return what does not go together.

    Args:
        values: Every setting by its dotted name.
        origins: Where each value comes from, for people.
    """
    return [
        *_open_listeners(values, origins),
        *_otlp_export(values, origins),
    ]


def _open_listeners(
    values: Mapping[str, object], origins: Mapping[str, str]
) -> Iterator[SettingsError]:
    """Yield listeners that anybody on the network could use."""
    if not _is_loopback(str(values["dashboard.address"])):
        yield SettingsError(
            f"{origins['dashboard.address']}: dashboard.address = "
            f"{values['dashboard.address']!r} is not a loopback address, and the pages have no "
            "sign-in",
            "Keep 127.0.0.1 and reach it by an SSH tunnel or an authenticating proxy.",
        )
    for key in ("collect.listen_address", "otlp.listen_address"):
        if not _is_loopback(str(values[key])) and not values["collect.token"]:
            yield SettingsError(
                f"{origins[key]}: {key} = {values[key]!r} is not loopback and there is no token",
                _TOKEN,
            )


def _otlp_export(
    values: Mapping[str, object], origins: Mapping[str, str]
) -> Iterator[SettingsError]:
    """Yield what no metrics could be sent with."""
    endpoint, headers = values["otlp.export_endpoint"], values["otlp.export_headers"]
    if endpoint is not None and not is_web_address(str(endpoint)):
        yield SettingsError(
            f"{origins['otlp.export_endpoint']}: otlp.export_endpoint = {endpoint!r} is no http or "
            "https address",
            "Give one such as http://otel-collector:4318.",
        )
    pairs = [] if headers is None else str(headers).split(",")
    if not all(pair.partition("=")[0].strip() and "=" in pair for pair in pairs):
        yield SettingsError(
            f"{origins['otlp.export_headers']}: otlp.export_headers = (not shown): want name=value",
            "Put commas between several, and %2C for a comma within a value.",
        )


def _is_loopback(address: str) -> bool:
    try:
        return address == "localhost" or ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
