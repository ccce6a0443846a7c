"""Facts: kept for ever, the newest row of a key is the valid one."""

from __future__ import annotations

from stallscope.schema import table


def newest_facts(name: str) -> str:
    """Return a SELECT of the valid row of each key of a fact table.

    Args:
        name: A table of role fact that has a key.

    Raises:
        KeyError: No such table.
        ValueError: The table has no key.
    """
    facts = table(name)
    if not facts.key:
        raise ValueError(f"table {name} has no key")
    key = ", ".join(facts.key)
    return (
        f"SELECT * FROM {name} "
        f"QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY wall_us DESC) = 1"
    )
