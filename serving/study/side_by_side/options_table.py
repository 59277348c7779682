"""Options table: a study's table that a command's options make. Its errors name the option, as nobody wrote a file."""

from serving.study.spec import StudyTable
from serving.usage_error import UsageError

OPTIONS = {
    **{name: f"--{name}" for name in ("workload", "model", "devices", "seeds", "law")},
    **{name: f"--slo-{name.replace('_', '-')}" for name in ("ttft_ms", "tpot_ms")},
}
"""The options by the keys that they set. All else is set by the names of hardware."""


class OptionsTable(StudyTable):
    """A table of the study that options make."""

    def where(self, key: str) -> str:
        """Return the option that sets a key; of a variant the name of its hardware, which is an argument."""
        return OPTIONS.get(key, key)

    def error(self, key: str, sentence: str) -> UsageError:
        """Return an error about what an option sets; `sentence` goes on after its name."""
        file = f" {self.values[key]}" if key == "workload" else ""
        return self.failure(f"{self.where(key)}{file} {sentence}")

    def located(self, error: UsageError) -> UsageError:
        """Return an error with the option that is at fault, if it is one."""
        option = next((OPTIONS[key] for key in error.keys if key in OPTIONS), "")
        return self.failure(f"{option}: {error}" if option else str(error), *error.keys)
