"""Getting several pages at the same time, each under its own deadline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from collector.edges.http_scrape import Scrape, ScrapeError
from collector.source import State
from collector.source_loop import describe_crash
from stallscope.clock import Clock, Instant
from stallscope.units import US_PER_SECOND

_MOST_AT_ONCE = 16
_GRACE = 1.25  # looking up a host name is the one step that a fetch cannot bound itself

Fetch = Callable[[str, int], Scrape]
"""Gets a page, given its address and a time limit in microseconds; `http_scrape.fetch` is one.

Raises ScrapeError when there is none.
"""


@dataclass(frozen=True, slots=True)
class Got:
    """A page as it came.

    Attributes:
        scrape: The page.
        at: When its last byte was here.
        took_us: From the request to the last byte.
    """

    scrape: Scrape
    at: Instant
    took_us: int


class Scrapes:
    """Gets pages.

    Args:
        fetch: Gets one page.
        clock: Stamps pages.
        deadline_us: For one page.
    """

    def __init__(self, fetch: Fetch, clock: Clock, deadline_us: int) -> None:
        self._fetch = fetch
        self._clock = clock
        self._deadline_us = deadline_us
        self._pool = ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="engine-scrape")
        self._pending: dict[str, Future[Got]] = {}
        self._hung: set[str] = set()

    def get(self, urls: Sequence[str]) -> dict[str, Got | ScrapeError]:
        """Return the page of every address, or why there is none.

        An address that hung is asked on, but not waited for until it answers again: when one engine
        stalls, the others are worth watching at their usual pace.

        A single address is read in the caller's thread, so that its cost is accounted there.
        """
        if len(urls) == 1 and not self._pending:
            return {urls[0]: self._try(urls[0])}
        for url in urls:
            if url not in self._pending:
                self._pending[url] = self._pool.submit(self._get, url)
        expected = [one for url, one in self._pending.items() if url not in self._hung]
        wait(expected, timeout=_GRACE * self._deadline_us / US_PER_SECOND)
        outcomes = {url: self._outcome(url) for url in urls}
        self._hung = {url for url, outcome in outcomes.items() if _is_hung(outcome)}
        return outcomes

    def close(self) -> None:
        """Start nothing more; what is under way ends by its own deadline."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _get(self, url: str) -> Got:
        begin = self._clock.now()
        scrape = self._fetch(url, self._deadline_us)
        at = self._clock.now()
        return Got(scrape, at, at.mono_us - begin.mono_us)

    def _try(self, url: str) -> Got | ScrapeError:
        try:
            return self._get(url)
        except Exception as error:  # noqa: BLE001 - see _as_scrape_error
            return _as_scrape_error(error)

    def _outcome(self, url: str) -> Got | ScrapeError:
        """Return what came of a scrape; one still under way stays pending and is not doubled."""
        future = self._pending[url]
        if not future.done():
            limit = self._deadline_us / US_PER_SECOND
            return ScrapeError(State.HUNG, f"the scrape did not end within {limit:g} s")
        del self._pending[url]
        try:
            return future.result()
        except Exception as error:  # noqa: BLE001 - see _as_scrape_error
            return _as_scrape_error(error)


def _is_hung(outcome: Got | ScrapeError) -> bool:
    return isinstance(outcome, ScrapeError) and outcome.state is State.HUNG


def _as_scrape_error(error: Exception) -> ScrapeError:
    """Return why there is no page; what nobody foresaw at one address is no trouble of others."""
    if isinstance(error, ScrapeError):
        return error
    return ScrapeError(State.FAILED, describe_crash(error))
