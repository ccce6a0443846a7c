"""What stallscope costs, how small and how fast it is, beside the rival in the same run."""
