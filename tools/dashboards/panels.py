"""Panels: their kinds, sizes and colours. What is special to one is said where it is made, in the SDK's own words."""

from collections.abc import Iterable, Mapping
from string import ascii_uppercase
from typing import NamedTuple, TypeVar

from grafana_foundation_sdk.builders import common, heatmap, prometheus, stat, statetimeline, timeseries
from grafana_foundation_sdk.builders.dashboard import FieldColor, ThresholdsConfig
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DynamicConfigValue,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")

# Okabe and Ito's, which people with any colour vision tell apart.
BLACK, ORANGE, SKY, GREEN = "#888888", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, RED, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED, YELLOW, BLACK)
QUANTILES = {"p50": SKY, "p90": BLUE, "p99": RED, "mean": BLACK}

Drawn = TypeVar("Drawn", timeseries.Panel, statetimeline.Panel)


class Query(NamedTuple):
    """A query, and how what it finds is called."""

    expr: str
    legend: str = "__auto"


def lines(title: str, text: str, unit: str, *queries: Query) -> timeseries.Panel:
    """Lines over time; a third of a row."""
    legend = common.VizLegendOptions().show_legend(True).display_mode(options.LegendDisplayMode.TABLE)
    legend = legend.placement(options.LegendPlacement.BOTTOM).calcs(["mean", "max", "lastNotNull"])
    tooltip = common.VizTooltipOptions().mode(options.TooltipDisplayMode.MULTI).sort(options.SortOrder.DESCENDING)
    panel = (
        timeseries.Panel().title(title).description(text).unit(unit).datasource(DATASOURCE).targets(targets(queries))
    )
    panel = panel.span(8).height(9).min(0).line_width(1).fill_opacity(8).show_points(options.VisibilityMode.NEVER)
    panel = panel.color_scheme(FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC_BY_NAME))
    return panel.legend(legend).tooltip(tooltip)


def areas(title: str, text: str, unit: str, *queries: Query) -> timeseries.Panel:
    """Lines on top of each other."""
    stacking = common.StackingConfig().mode(options.StackingMode.NORMAL)
    return lines(title, text, unit, *queries).stacking(stacking).fill_opacity(60).line_width(0)


def figure(title: str, text: str, unit: str, query: Query, steps: Mapping[float, str] | None = None) -> stat.Panel:
    """Return the panel of a figure, an eighth of a row wide; `steps` are the colours from values on."""
    panel = stat.Panel().title(title).description(text).unit(unit).datasource(DATASOURCE).targets(targets([query]))
    panel = panel.span(3).height(4).graph_mode(options.BigValueGraphMode.AREA).no_value("nothing yet")
    panel = panel.color_mode(options.BigValueColorMode.VALUE if steps else options.BigValueColorMode.NONE)
    panel = panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    panel = panel.color_scheme(FieldColor().mode(FieldColorModeId.THRESHOLDS))
    return panel.thresholds(from_values(BLUE, steps or {}))


def cells(title: str, text: str, unit: str, query: Query) -> heatmap.Panel:
    """Return the panel of a histogram's buckets over time."""
    found = asked(query, "A").format(PromQueryFormat.HEATMAP)
    panel = heatmap.Panel().title(title).description(text).unit(unit).datasource(DATASOURCE).with_target(found)
    color = heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Cividis").steps(64).exponent(0.5)
    axis = heatmap.YAxisConfig().unit(unit).axis_placement(options.AxisPlacement.LEFT)
    panel = panel.calculate(False).color(color.fill(BLUE).reverse(False)).y_axis(axis).cell_gap(1)
    return panel.mode(options.TooltipDisplayMode.SINGLE).show_color_scale(True).show_legend().span(12).height(9)


def states(title: str, text: str, query: Query, named: Mapping[str, str]) -> statetimeline.Panel:
    """Return a panel with a row for each series, in the colour of its state; states by name are 1, 2, ..., and 0 is
    none of them."""
    results = {
        str(n): ValueMappingResult(text=name, color=color, index=n)
        for n, (name, color) in enumerate({"none": BLACK, **named}.items())
    }
    panel = statetimeline.Panel().title(title).description(text).unit("none").datasource(DATASOURCE)
    panel = panel.targets(targets([query])).mappings([ValueMap(options=results)]).span(12).height(7)
    panel = panel.color_scheme(FieldColor().mode(FieldColorModeId.THRESHOLDS)).thresholds(from_values(BLACK, {}))
    panel = panel.show_value(options.VisibilityMode.NEVER).merge_values(True).row_height(0.8).fill_opacity(85)
    return panel.legend(common.VizLegendOptions().show_legend(True).display_mode(options.LegendDisplayMode.LIST))


def targets(queries: Iterable[Query]) -> list[Builder[Dataquery]]:
    """Return the queries that Grafana makes."""
    return [asked(query, ref) for ref, query in zip(ascii_uppercase, queries, strict=False)]


def asked(query: Query, ref: str) -> prometheus.Dataquery:
    """Return a query as Grafana takes it."""
    found = prometheus.Dataquery().expr(query.expr).legend_format(query.legend)
    return found.ref_id(ref).range().datasource(DATASOURCE)


def from_values(base: str, steps: Mapping[float, str]) -> ThresholdsConfig:
    """Return a colour, and others from some values on."""
    thresholds = [Threshold(value=None, color=base), *(Threshold(value, color) for value, color in steps.items())]
    return ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(thresholds)


def limit(panel: timeseries.Panel, value: float) -> timeseries.Panel:
    """Add a dashed line that should not be crossed."""
    style = common.GraphThresholdsStyleConfig().mode(options.GraphThresholdsStyleMode.DASHED)
    return panel.thresholds(from_values("transparent", {value: RED})).thresholds_style(style)


def painted(panel: Drawn, colors: Mapping[str, str]) -> Drawn:
    """Series in colours, by name."""
    for name, color in colors.items():
        panel = panel.override_by_name(name, [fixed(color)])
    return panel


def by_device(panel: timeseries.Panel, before: str = "· ") -> timeseries.Panel:
    """Series in colours, by the device (or another number, with something else before it) at the end of their name."""
    for device, color in enumerate(PALETTE):
        panel = panel.override_by_regexp(f"/{before}{device}$/", [fixed(color)])
    return panel


def by_begin(panel: timeseries.Panel, colors: Mapping[str, str]) -> timeseries.Panel:
    """Series in colours, by what their name begins with."""
    for name, color in colors.items():
        panel = panel.override_by_regexp(f"/^{name}: /", [fixed(color)])
    return panel


def dashed(panel: timeseries.Panel, pattern: str) -> timeseries.Panel:
    """Series that match a pattern are limits: dashed, and in no stack."""
    style = {"dash": [8, 6], "fill": "dash"}
    properties = {"custom.lineStyle": style, "custom.fillOpacity": 0, "custom.lineWidth": 2}
    values = [DynamicConfigValue(id, value) for id, value in properties.items()]
    unstacked = DynamicConfigValue("custom.stacking", {"mode": "none", "group": "limit"})
    return panel.override_by_regexp(f"/{pattern}/", [*values, unstacked])


def fixed(color: str) -> DynamicConfigValue:
    """Return the property that gives a series its colour."""
    return DynamicConfigValue("color", {"mode": "fixed", "fixedColor": color})
