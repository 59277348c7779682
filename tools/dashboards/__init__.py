"""Grafana's dashboards, generated: `make dashboards` writes them to `deploy/grafana/dashboards`.

`promql.py` writes queries, `panels.py` panels, `frame.py` what dashboards have in common; then there is a file for each
dashboard. Grafana's SDK comes with the extra `test`: whoever only imports the JSON needs none of this.
"""
