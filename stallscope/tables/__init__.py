"""The tables of the lake, by role; `stallscope.schema` gathers them."""
