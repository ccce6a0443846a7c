"""The subcommands of `stallscope`, one module each.

A module has ``configure(parser)`` and ``run(arguments) -> exit status``, and is imported only when
its command is asked for. Exit status: 0 fine, 1 found a problem, 2 could not run.
"""
