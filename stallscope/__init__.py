"""stallscope: why an LLM inference host stalls, in seconds per cause."""
