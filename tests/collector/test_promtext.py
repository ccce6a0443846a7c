"""The formats and every way in which pages of real exporters broke readers."""

from __future__ import annotations

import pytest

from collector.edges.prompage import Limits, Page
from collector.edges.promtext import Parser, parse

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def read(text: str | bytes, content_type: str = TEXT) -> Page:
    body = text.encode() if isinstance(text, str) else text
    return parse(body, content_type)


def value(page: Page, name: str, **labels: str) -> float | None:
    """Return the value of the one series of that name with these labels."""
    found = [
        number
        for series, number in page.values.items()
        if series.name == name and dict(series.labels) == labels
    ]
    assert len(found) == 1, f"{name}{labels} stands {len(found)} times"
    return found[0]


def test_reads_three_digit_exponents() -> None:
    page = read("process_virtual_memory_bytes 1.03e+011\n")
    assert value(page, "process_virtual_memory_bytes") == 1.03e11


def test_created_is_a_birth_and_no_value() -> None:
    page = read("# TYPE x counter\nx_total 5\n# TYPE x_created gauge\nx_created 1.7e9\n")
    assert [series.name for series in page.values] == ["x_total"]
    assert [(series.name, at) for series, at in page.births.items()] == [("x", 1.7e9)]
    assert page.samples == 2


def test_raw_quotes_in_a_value_cost_that_line_only() -> None:
    page = read('a 1\njobs{cmd="cd "/foo/""} 1\nb 2\n')
    assert (value(page, "a"), value(page, "b")) == (1, 2)
    assert page.rejected == 1
    assert page.rejects[0].line == 2
    assert page.rejects[0].text.startswith("jobs{cmd=")
    assert "column 15" in page.rejects[0].reason


def test_a_single_backslash_before_the_quote_is_refused_and_two_are_one() -> None:
    assert read('d{s="C:\\",host="a"} 1\n').rejected == 1
    assert value(read('d{s="C:\\\\",host="a"} 1\n'), "d", s="C:\\", host="a") == 1


def test_escaped_quotes_do_not_end_a_value() -> None:
    assert value(read('m{a="x\\"y,z=\\"q"} 2\n'), "m", a='x"y,z="q') == 2


def test_an_unknown_escape_keeps_both_characters() -> None:
    assert value(read('m{app="ABC\\XUVW"} 7710\n'), "m", app="ABC\\XUVW") == 7710


def test_braces_commas_and_equal_signs_may_stand_in_values() -> None:
    page = read("m{sql=\"select {a,b} = 'x'\"} 3\n")
    assert value(page, "m", sql="select {a,b} = 'x'") == 3


def test_labels_may_begin_with_an_underscore_and_a_comma_may_end_them() -> None:
    assert value(read('m{_name="Main",} 10.0\n'), "m", _name="Main") == 10


def test_blanks_around_commas_and_equal_signs() -> None:
    page = read('m{a="1", b = "2"\t,c="3"} 4\nn { a="1" , } 5\n')
    assert value(page, "m", a="1", b="2", c="3") == 4
    assert value(page, "n", a="1") == 5


def test_of_two_help_and_type_lines_the_last_type_wins_and_all_samples_stay() -> None:
    page = read(
        '# HELP m one text\n# TYPE m counter\nm{a="1"} 1\n'
        '# HELP m another\n# TYPE m gauge\nm{a="2"} 2\n'
    )
    assert page.types == {"m": "gauge"}
    assert (value(page, "m", a="1"), value(page, "m", a="2")) == (1, 2)


def test_a_gauge_and_a_counter_may_share_a_base_name() -> None:
    page = read("# TYPE x gauge\nx 1\n# TYPE x_total counter\nx_total 7\n")
    assert (value(page, "x"), value(page, "x_total")) == (1, 7)


def test_a_series_that_stands_twice_is_one_row_with_its_last_value() -> None:
    page = read('m{a="1"} 4\nm{a="1"} 4\nn{a="1"} 4\nn{a="1"} 6\n')
    assert (value(page, "m", a="1"), value(page, "n", a="1")) == (4, 6)
    assert page.duplicates == 2


def test_other_label_order_is_the_same_series() -> None:
    page = read('m{a="1",b="2"} 4\nm{b="2",a="1"} 5\n')
    assert value(page, "m", a="1", b="2") == 5
    assert page.duplicates == 1


@pytest.mark.parametrize("text", ["-nan", "NaN", "nan", "+NaN"])
def test_nan_is_no_value(text: str) -> None:
    page = read(f"llamacpp:kv_cache_usage_ratio {text}\n")
    assert value(page, "llamacpp:kv_cache_usage_ratio") is None


def test_a_sample_that_ran_into_a_type_line_is_refused_and_the_next_line_read() -> None:
    page = read("# TYPE x counter x 5\ny 1\n")
    assert [series.name for series in page.values] == ["y"]
    assert page.rejected == 1
    assert page.types == {}


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    assert value(read(b'm{dev="caf\xe9"} 1\n'), "m", dev="caf\ufffd") == 1


@pytest.mark.parametrize("name", ["a_'reserve'_ratio", "a\\b", "9lives", "a-b", ""])
def test_a_bad_name_is_refused(name: str) -> None:
    page = read(f'{name}{{h="x"}} 1\nb 2\n')
    assert page.rejected == 1
    assert value(page, "b") == 2


def test_a_cut_last_line_is_dropped_because_it_may_be_a_prefix() -> None:
    page = read('a 1\nvllm:prompt_tokens_total{engine="0"} 1167')
    assert [series.name for series in page.values] == ["a"]
    assert page.partial
    assert page.rejected == 0


def test_a_whole_page_is_not_partial() -> None:
    assert not read("a 1\n").partial
    assert not read("").partial


def test_a_broken_connection_makes_a_page_partial_wherever_it_ends() -> None:
    page = Parser().parse(b"a 1\n", TEXT, cut=True)
    assert page.partial
    assert value(page, "a") == 1


@pytest.mark.parametrize(
    "text",
    ["0,000000e+00", "1,5", "1_000", "0x10", "one", "1e", "--1", "", "1.2.3", "٣", "9" * 65],
)
def test_what_is_no_number_is_refused_with_a_reason(text: str) -> None:
    page = read(f"a 1\nb {text}\n")
    assert [series.name for series in page.values] == ["a"]
    assert page.rejects[0].reason == "no value" or "not a number" in page.rejects[0].reason


def test_a_number_is_judged_the_same_when_its_series_is_known() -> None:
    parser = Parser()
    assert parser.parse(b"a 1\n", TEXT).rejected == 0
    for bad in (b"1_000", b"0,5", b"x", b"1 2 3"):
        assert parser.parse(b"a " + bad + b"\n", TEXT).rejected == 1, bad
    assert value(parser.parse(b"a nan\n", TEXT), "a") is None
    assert value(parser.parse(b"a 2\n", TEXT), "a") == 2


def test_timestamps_are_milliseconds_in_text_and_seconds_in_openmetrics() -> None:
    text = read("a 1 1601830800000\n")
    assert list(text.times_us.values()) == [1_601_830_800_000_000]
    strict = read("a 8 123.5\n# EOF\n", OPEN_METRICS)
    assert list(strict.times_us.values()) == [123_500_000]
    assert value(strict, "a") == 8


def test_exemplars_are_no_part_of_the_value() -> None:
    page = read(
        'a_total{x="1"} 8 123 # {a="b # {"} 0.5 122\nb_total 2 # {} 1\n# EOF\n', OPEN_METRICS
    )
    assert value(page, "a_total", x="1") == 8
    assert value(page, "b_total") == 2
    assert page.rejected == 0


def test_text_behind_the_timestamp_is_refused() -> None:
    assert read("a 1 2 3\n").rejected == 1
    assert read('a 1 # {t="x"} 1\n').rejected == 1  # exemplars are OpenMetrics only
    assert read("a 1 x\n").rejected == 1
    assert read("a 1 nan\n").rejected == 1


def test_openmetrics_without_its_end_is_partial_and_loses_its_last_line() -> None:
    page = read("a 1\nb 2\n", OPEN_METRICS)
    assert [series.name for series in page.values] == ["a"]
    assert page.partial


@pytest.mark.parametrize("end", ["# EOF", "# EOF\n", "# EOF\r\n"])
def test_openmetrics_ends_at_eof(end: str) -> None:
    page = read(f"a 1\nb 2\n{end}", OPEN_METRICS)
    assert not page.partial
    assert (value(page, "a"), value(page, "b")) == (1, 2)


def test_lines_behind_eof_are_refused() -> None:
    page = read("a 1\n# EOF\nb 2\n\nc 3\n", OPEN_METRICS)
    assert [series.name for series in page.values] == ["a"]
    assert [(reject.line, reject.reason) for reject in page.rejects] == [
        (3, "behind # EOF"),
        (5, "behind # EOF"),
    ]


def test_the_header_chooses_the_format_and_without_one_the_page_does() -> None:
    body = "a 1 2\n# EOF\n"
    assert not read(body, TEXT).open_metrics  # there it is a comment
    assert read(body, OPEN_METRICS.upper()).open_metrics
    assert read(body, "").open_metrics
    assert not read("a 1 2\n", "").open_metrics
    assert not read(body, "application/octet-stream").open_metrics


def test_both_spellings_of_a_name_space_are_one_name() -> None:
    page = read("vllm:x 1\nvllm_x 1\nvllm_y 2\nray_vllm_z_total 3\nray_tasks 4\nvllms_x 5\n")
    names = sorted(series.name for series in page.values)
    assert names == ["ray_tasks", "vllm:x", "vllm:y", "vllm:z_total", "vllms_x"]
    assert page.duplicates == 1


def test_the_prefix_is_configurable() -> None:
    page = Parser(prefixes=("acme_",)).parse(b"acme_vllm:x 1\nray_vllm_x 2\n", TEXT)
    assert sorted(series.name for series in page.values) == ["ray_vllm_x", "vllm:x"]


def test_quoted_names_of_prometheus_3() -> None:
    page = read('{"http.requests",code="200"} 3\n{"a b"} 4\nm{"x.y"="1"} 5\n{code="2"} 1\n{} 1\n')
    assert value(page, "http.requests", code="200") == 3
    assert value(page, "a b") == 4
    assert value(page, "m", **{"x.y": "1"}) == 5
    assert page.rejected == 2


@pytest.mark.parametrize(
    "line",
    [
        'm{a="1"',
        'm{a="1" b="2"} 1',
        "m{a=1} 1",
        'm{a="1",a="2"} 1',
        'm{a="1}',
        "m{a} 1",
        "m",
        "m{,} 1",
        'm{a="1"}',
    ],
)
def test_malformed_labels_are_refused(line: str) -> None:
    page = read(f"a 1\n{line}\nb 2\n")
    assert page.rejected == 1
    assert sorted(series.name for series in page.values) == ["a", "b"]


def test_blank_lines_carriage_returns_and_tabs() -> None:
    page = read("\n  \na 1\r\n\tb\t2\t\nc   3 \n#\n# a comment\n")
    assert [value(page, name) for name in "abc"] == [1, 2, 3]
    assert page.rejected == 0


class TestLimits:
    def test_lines_beyond_the_limit_are_counted_as_rejects(self) -> None:
        body = "".join(f"m{number} 1\n" for number in range(10)).encode()
        page = Parser(Limits(lines=4)).parse(body, TEXT)
        assert len(page.values) == 4
        assert page.rejected == 6
        assert page.partial
        assert page.rejects[0].line == 5

    def test_a_long_line_is_refused(self) -> None:
        body = b'm{a="' + b"x" * 2_000 + b'"} 1\nb 2\n'
        page = Parser(Limits(line_bytes=1_000)).parse(body, TEXT)
        assert page.rejects[0].reason == "longer than 1000 bytes"
        assert len(page.rejects[0].text) <= 80
        assert value(page, "b") == 2

    def test_too_many_labels_are_refused(self) -> None:
        labels = ",".join(f'l{number}="v"' for number in range(5))
        page = Parser(Limits(labels=4)).parse(f"m{{{labels}}} 1\n".encode(), TEXT)
        assert page.rejects[0].reason == "more than 4 labels"

    def test_a_long_page_is_read_up_to_the_limit(self) -> None:
        page = Parser(Limits(page_bytes=10)).parse(b"a 1\nb 2\nccccc 3\n", TEXT)
        assert sorted(series.name for series in page.values) == ["a", "b"]
        assert page.partial

    def test_only_the_first_rejects_keep_their_text_but_all_are_counted(self) -> None:
        page = Parser(Limits(rejects=2)).parse(b"-\n" * 5, TEXT)
        assert page.rejected == 5
        assert len(page.rejects) == 2

    def test_a_target_that_invents_series_does_not_fill_the_memory(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("collector.edges.promtext._MOST_KEPT_BYTES", 1_000)
        monkeypatch.setattr("collector.edges.promtext._MOST_NUMBERS", 10)
        parser = Parser()
        for number in range(500):
            page = parser.parse(
                f'# x {number}\nkept {number}\nm{{id="{number}"}} {number}\n'.encode(), TEXT
            )
            assert value(page, "m", id=str(number)) == number
        kept = len(parser._known) + len(parser._interned) + len(parser._comments)  # noqa: SLF001
        assert kept < 100
        assert len(parser._numbers) <= 11  # noqa: SLF001


def test_a_series_is_the_same_object_from_page_to_page() -> None:
    parser = Parser()
    first = parser.parse(b'm{a="1"} 1\n', TEXT)
    second = parser.parse(b'm{a="1"} 2\nm{ a="2"} 1\n', TEXT)
    assert next(iter(first.values)) is next(iter(second.values))


@pytest.mark.parametrize("content_type", ["text/plain", "application/openmetrics-text"])
def test_a_timestamp_beyond_the_calendar_costs_its_line(content_type: str) -> None:
    page = parse(b"a 1 1e308\na 2 99999999999999999999\nb 3 5\n# EOF\n", content_type)
    assert {series.name: value for series, value in page.values.items()} == {"b": 3}
    assert page.rejected == 2
