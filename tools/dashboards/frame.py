"""What the dashboards have in common: variables, annotations, links and the order of panels."""

import json
from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.builders import dashboard as make
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

from tools.dashboards.panels import BLUE, DATASOURCE, ORANGE, RED
from tools.dashboards.promql import EACH, came, select

TAG = "foreserve"
Panels = Sequence[Builder[model.Panel]]


class Annotation(model.AnnotationQuery):
    """The SDK's lacks what a query to Prometheus has: which text each mark gets."""

    title_format = ""

    def to_json(self) -> dict[str, object]:
        return super().to_json() | {"titleFormat": self.title_format}


class Mark(Builder[model.AnnotationQuery]):
    """A query whose results are marks in all panels: values that follow each other are one mark with a begin and an
    end."""

    def __init__(self, name: str, expr: str, title: str, color: str) -> None:
        self._made = Annotation(name=name, datasource=DATASOURCE, enable=True, icon_color=color, expr=expr)
        self._made.title_format = title

    def build(self) -> model.AnnotationQuery:
        return self._made


def dashboard(name: str, title: str, text: str, rows: Mapping[str, Panels]) -> str:
    """Return a dashboard as JSON. `rows` are its panels by heading; what has none ("") comes first."""
    made = make.Dashboard(f"foreserve / {title}").uid(f"foreserve-{name}").description(text).tags([TAG])
    made = made.refresh("5s").time("now-15m", "now").timezone("browser").tooltip(model.DashboardCursorSync.CROSSHAIR)
    made = made.variables(variables()).annotations(marks()).link(siblings())
    for heading, panels in rows.items():
        if heading:
            made = made.with_row(make.Row(heading))
        for panel in panels:
            made = made.with_panel(panel)
    built = made.build()
    for number, placed in enumerate(built.panels or [], 1):
        placed.id_val = number
    return json.dumps(built, cls=JSONEncoder, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def variables() -> list[Builder[model.VariableModel]]:
    """Return the variables that a user may choose; each offers what those before it leave."""
    fleet = 'job=~"$job", instance=~"$instance"'
    return [
        make.DatasourceVariable("datasource")
        .label("Data source")
        .type("prometheus")
        .current(model.VariableOption(text="Prometheus", value="prometheus")),
        # All of those that are listed, and no other: series that others have as well are summed over them.
        choice("job", "Job", "label_values(foreserve_info, job)", of_all=None),
        choice("instance", "Instance", 'label_values(foreserve_info{job=~"$job"}, instance)', of_all=None),
        choice("model_name", "Model", f"label_values(vllm:num_requests_running{{{fleet}}}, model_name)"),
        choice("device", "Device", f"label_values(foreserve_device{{{fleet}}}, device)"),
    ]


def choice(name: str, label: str, query: str, of_all: str | None = ".*") -> make.QueryVariable:
    """Any of the values of a label, or all: whatever the pattern `of_all` matches, or else all that are listed."""
    variable = make.QueryVariable(name).label(label).query(query).datasource(DATASOURCE)
    variable = variable.multi(True).include_all(True).sort(model.VariableSort.NUMERICAL_ASC)
    variable = variable if of_all is None else variable.all_value(of_all)
    variable = variable.refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
    return variable.current(model.VariableOption(text=["All"], value=["$__all"]))


def marks() -> list[Builder[model.AnnotationQuery]]:
    """When something happened to a device."""
    faults = f"max by ({EACH}, kind) ({select('foreserve_fault_active')}) > 0"
    other = 'state!~"serving|gone"'
    states = f"max by ({EACH}, state) ({select('foreserve_device', other)}) > 0"
    switches = came("foreserve_mode_switches_total", f"{EACH}, to, reason")
    return [
        Mark("Faults", faults, "{{kind}} on device {{device}}", ORANGE),
        Mark("Devices not serving", states, "device {{device}} is {{state}}", RED),
        Mark("Mode switches", switches, "device {{device}}: {{to}}, {{reason}}", BLUE),
    ]


def siblings() -> make.DashboardLink:
    """To the other dashboards, with the same choices and the same time."""
    link = make.DashboardLink("foreserve dashboards").type(model.DashboardLinkType.DASHBOARDS).tags([TAG])
    return link.include_vars(True).keep_time(True).as_dropdown(False)
