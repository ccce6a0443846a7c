from __future__ import annotations

import pytest

from stallscope.context_length import CONTEXT_CLASSES, context_class


@pytest.mark.parametrize(
    ("tokens", "name"),
    [
        (0, "2k"),
        (2_048, "2k"),
        (2_049, "8k"),
        (8_192, "8k"),
        (8_193, "32k"),
        (32_768, "32k"),
        (32_769, "long"),
        (2_000_000, "long"),
        (None, None),
    ],
)
def test_a_bound_belongs_to_the_class_below(tokens: int | None, name: str | None) -> None:
    assert context_class(tokens) == name


def test_only_the_last_class_has_no_bound_and_the_others_ascend() -> None:
    bounds = [bound for bound, _ in CONTEXT_CLASSES]
    assert bounds[-1] is None
    assert bounds[:-1] == sorted(bound for bound in bounds if bound is not None)
