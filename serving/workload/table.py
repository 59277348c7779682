"""The tables of a workload's file."""

from serving.toml_table import TomlTable
from serving.usage_error import UsageError


class WorkloadError(UsageError):
    """A workload, or a trace, that cannot be used: one sentence that names the file, the line and what is allowed."""


class WorkloadTable(TomlTable):
    """A table of a workload's file."""

    what = "workload"
    failure = WorkloadError
