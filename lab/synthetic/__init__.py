"""Made-up but realistic signals: token streams, gauges, engine pages, a host's kernel files."""
