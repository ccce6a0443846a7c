"""What is published speaks of the product only: no address of a registry, no private path."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.project.checkout import REPO

# Put together from halves, so that this file does not hold what it looks for.
_FORBIDDEN = {
    "registry address": "|".join(
        ("pypi" + r"\.org", "python" + "hosted", r"registry\." + "npmjs", r"deb\." + "debian")
    ),
    "path of one machine": "|".join(
        ("/wo" + "rk/", "/fa" + "rm/", "/root" + r"/\.", "bash_" + "jobs")
    ),
    "word about its making": "|".join(("sub" + "agent", "helper " + "session")),
}


def _tracked_text() -> dict[str, str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("no git checkout: nothing says which files are published")
    names = [name for name in listed.stdout.split("\0") if (REPO / name).is_file()]
    return {name: (REPO / name).read_text("utf-8", errors="replace") for name in names}


@pytest.mark.parametrize("what", _FORBIDDEN)
def test_no_file_holds_a(what: str) -> None:
    pattern = re.compile(_FORBIDDEN[what])
    found = {
        name: hit.group() for name, text in _tracked_text().items() if (hit := pattern.search(text))
    }
    assert found == {}
