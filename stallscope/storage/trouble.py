"""What is going wrong right now, said once when it begins and once when it ends."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class Trouble:
    """The last failure of each kind of work, until that work succeeds again."""

    _failing: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def raised(self, what: str, error: Exception) -> bool:
        """Remember a failure and return whether it is news."""
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        text = f"{what}: {reason or type(error).__name__}"
        with self._lock:
            news = self._failing.get(what) != text
            self._failing[what] = text
        return news

    def cleared(self, what: str) -> bool:
        """Forget a failure and return whether there was one."""
        with self._lock:
            return self._failing.pop(what, None) is not None

    def current(self) -> str:
        """Return all that fails now as one line, or an empty string."""
        with self._lock:
            return "; ".join(self._failing.values())
