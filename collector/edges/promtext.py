"""Pages of metrics: text format 0.0.4 and OpenMetrics 1.0, read line by line.

A bad line costs that line, never the page (client_python#668: a strict parser loses a whole scrape
to one family). What is counted, kept or left out:

* A series that stands twice keeps its last value and is counted once.
* ``_created`` is when a series was born and never a value (OpenMetrics 1.0, section 5.1.2). Every
  name that ends so is read as a birth, also in the text format, where clients print it as a gauge.
* HELP texts are not kept; of two TYPE lines for one family the last wins.
* A page without its final newline, or OpenMetrics without ``# EOF``, is partial: its last line may
  be the prefix of a longer one and is dropped.
* ``vllm_x`` and ``vllm:x`` are one name: prometheus-client 0.23 to 0.26 writes the first on
  OpenMetrics scrapes (client_python#1177). A prefix that a proxy puts in front (``ray_``) is taken
  off.

The hot path is two dictionary look-ups a line: series text to series, number text to number.
"""

from __future__ import annotations

from collections.abc import Sequence

from collector.edges.promline import Labels, LineError, parse_head, parse_number, parse_tail
from collector.edges.prompage import DEFAULT_LIMITS, Limits, Page, Series
from stallscope.units import US_PER_MS, US_PER_SECOND

NAMESPACES = ("vllm", "sglang", "lmcache", "llamacpp", "trtllm", "pytrtllm")
"""Name spaces that are written ``x:`` and that some clients turn into ``x_``."""
PREFIXES = ("ray_",)
"""What Ray Serve puts in front of an engine's names (vllm v1/metrics/ray_wrappers.py)."""

_OPEN_METRICS = "application/openmetrics-text"
_EOF = b"# EOF"
_CREATED = "_created"
_MOST_NUMBERS = 50_000
_MOST_KEPT_BYTES = 16 * 1024 * 1024


class Parser:
    """Reads the pages of one target and remembers its series from page to page.

    Args:
        limits: How much of a page is read.
        prefixes: Taken off names of a known name space.
        namespaces: Name spaces whose colon may have become an underscore.
    """

    def __init__(
        self,
        limits: Limits = DEFAULT_LIMITS,
        prefixes: Sequence[str] = PREFIXES,
        namespaces: Sequence[str] = NAMESPACES,
    ) -> None:
        self._limits = limits
        self._prefixes = tuple(prefixes)
        self._namespaces = tuple(namespaces)
        self._known: dict[bytes, Series] = {}
        self._interned: dict[tuple[str, Labels, bool], Series] = {}
        self._numbers: dict[bytes, float | None] = {}
        self._comments: dict[bytes, dict[str, str]] = {}
        self._kept_bytes = 0

    def parse(self, body: bytes, content_type: str, *, cut: bool = False) -> Page:
        """Return what a page says. Never raises on any input.

        Args:
            body: The page, decompressed.
            content_type: As sent; it chooses the format. Empty: told by the page's own ``# EOF``.
            cut: The connection ended early or the page was too long, so the page is partial
                wherever it ends.
        """
        page = Page(open_metrics=_is_open_metrics(body, content_type))
        page.partial = cut or len(body) > self._limits.page_bytes
        lines = self._split(body, page)
        series, values = self._read_lines(lines, page)
        read = dict(zip(series, values, strict=True))
        page.samples = len(series)
        page.duplicates = len(series) - len(read)
        page.values = {one: value for one, value in read.items() if not one.birth}
        if len(page.values) < len(read):
            page.births = {one: value for one, value in read.items() if one.birth}
        self._forget(read)
        return page

    def _split(self, body: bytes, page: Page) -> list[bytes]:
        """Return the complete lines up to the end of the exposition."""
        lines = body[: self._limits.page_bytes].split(b"\n")
        last = lines.pop()
        if page.open_metrics:
            last = self._find_end(lines, last, page)
        if last:
            page.partial = True
        if len(lines) > self._limits.lines:
            page.partial = True
            page.reject(
                self._limits.lines + 1, "more lines than are read", b"", self._limits.rejects
            )
            page.rejected += len(lines) - self._limits.lines - 1
            del lines[self._limits.lines :]
        return lines

    def _find_end(self, lines: list[bytes], last: bytes, page: Page) -> bytes:
        """Cut OpenMetrics at its ``# EOF``; without one the last line goes.

        Returns:
            What is left over of a last line that was cut off.
        """
        if last.rstrip() == _EOF:
            return b""
        stripped = [number for number, line in enumerate(lines) if line.rstrip() == _EOF]
        if not stripped:
            page.partial = True
            return last or (lines.pop() if lines else b"")
        end = stripped[0]
        for number in range(end + 1, len(lines)):
            if lines[number].strip():
                page.reject(number + 1, "behind # EOF", lines[number], self._limits.rejects)
        del lines[end:]
        return last

    def _read_lines(
        self, lines: list[bytes], page: Page
    ) -> tuple[list[Series], list[float | None]]:
        """Return series and values in the order of the page. This loop is the hot path."""
        known, numbers, comments = self._known, self._numbers, self._comments
        series: list[Series] = []
        values: list[float | None] = []
        for at, line in enumerate(lines):
            head, _, word = line.rpartition(b" ")
            one = known.get(head)
            if one is not None and word in numbers:
                series.append(one)
                values.append(numbers[word])
            elif line not in comments:
                sample = self._read_new(line, at + 1, page)
                if sample is not None:
                    series.append(sample[0])
                    values.append(sample[1])
            else:
                page.types.update(comments[line])
        return series, values

    def _read_new(self, line: bytes, number: int, page: Page) -> tuple[Series, float | None] | None:
        """Return the sample of a line that was not met like this before, or None if it has none."""
        try:
            head, _, word = line.rpartition(b" ")
            one = self._known.get(head)
            if one is not None and word:
                return one, self._numbers.setdefault(word, parse_number(word))
            return self._read_unknown(line, page)
        except LineError as error:
            page.reject(number, str(error), line, self._limits.rejects)
            return None

    def _read_unknown(self, line: bytes, page: Page) -> tuple[Series, float | None] | None:
        text = line.strip(b" \t\r")
        if len(text) > self._limits.line_bytes:
            raise LineError(f"longer than {self._limits.line_bytes} bytes")
        if text and not text.startswith(b"#"):
            return self._read_sample(line, text, page)
        types = _read_comment(text)
        page.types.update(types)
        self._comments[line] = types
        self._kept_bytes += len(line)
        return None

    def _read_sample(self, line: bytes, text: bytes, page: Page) -> tuple[Series, float | None]:
        head = parse_head(text, self._limits.labels)
        tail = parse_tail(text[head.end :], open_metrics=page.open_metrics)
        series = self._intern(head.name, head.labels)
        self._kept_bytes += len(text)
        if tail.time is not None:
            scale = US_PER_SECOND if page.open_metrics else US_PER_MS
            page.times_us[series] = round(tail.time * scale)
        key, _, _ = line.rpartition(b" ")
        if key == text[: head.end]:  # nothing but the number behind the series
            self._known[key] = series
        return series, tail.value

    def _intern(self, name: str, labels: Labels) -> Series:
        canonical = self._canonical(name)
        birth = canonical.endswith(_CREATED)
        if birth:
            canonical = canonical.removesuffix(_CREATED)
        key = (canonical, tuple(sorted(labels)), birth)
        return self._interned.setdefault(key, Series(*key))

    def _canonical(self, name: str) -> str:
        for prefix in ("", *self._prefixes):
            rest = name.removeprefix(prefix)
            if prefix and rest == name:
                continue
            for space in self._namespaces:
                if rest.startswith((f"{space}:", f"{space}_")):
                    return f"{space}:{rest[len(space) + 1 :]}"
        return name

    def _forget(self, read: dict[Series, float | None]) -> None:
        """Keep memory bounded when a target invents series: only those of this page stay known."""
        if len(self._numbers) > _MOST_NUMBERS:
            self._numbers.clear()
        if self._kept_bytes > _MOST_KEPT_BYTES:
            self._kept_bytes = 0
            self._comments.clear()
            self._known = {key: one for key, one in self._known.items() if one in read}
            self._interned = {key: one for key, one in self._interned.items() if one in read}


def parse(body: bytes, content_type: str) -> Page:
    """Return what one page says, for a caller who has no second one; see `Parser.parse`."""
    return Parser().parse(body, content_type)


def _is_open_metrics(body: bytes, content_type: str) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    if kind:
        return kind == _OPEN_METRICS
    return body.rstrip().endswith(b"\n" + _EOF)


def _read_comment(text: bytes) -> dict[str, str]:
    """Return the type that a TYPE line gives a family; every other comment says nothing kept.

    Raises:
        LineError: A TYPE line without exactly one name and one type: a sample may have run into it.
    """
    words = text.split(None, 4)
    if len(words) < 2 or words[1] != b"TYPE":  # noqa: PLR2004 - "#" and keyword
        return {}
    if len(words) != 4:  # noqa: PLR2004 - "#", keyword, name, type
        raise LineError("TYPE line without exactly one name and one type")
    return {words[2].decode("utf-8", "replace"): words[3].decode("utf-8", "replace")}
