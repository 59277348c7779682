"""A study run by a command: its progress on stderr, what failed in a sentence each, and what Ctrl-C leaves."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from serving.study.results import Results
    from serving.study.runner import StudyProgress
    from serving.study.study import Study

RESULTS = Path("results")
MOST_NAMED = 3


def run_shown(study: "Study", out: Path, cores: int | None, fresh: bool) -> "Results":
    """Run a study and tell of its progress. Where Ctrl-C ends it, say what is kept, and raise KeyboardInterrupt."""
    from serving.process.progress_line import ProgressLine
    from serving.study.runner import StudyProgress, run_study

    shown: list[StudyProgress] = []
    try:
        with ProgressLine() as line:

            def show(progress: StudyProgress) -> None:
                shown[:] = [progress]
                line(progress)

            results = run_study(study, out, cores, show, fresh)
    except KeyboardInterrupt:
        _say_outdated(shown, out)
        done = shown[0].done if shown else 0
        print(f"Ended. {done} points are kept in {out}: the same command goes on from there.", file=sys.stderr)
        raise
    _say_outdated(shown, out)
    _say_failed(results)
    return results


def _say_outdated(shown: "list[StudyProgress]", out: Path) -> None:
    """Say how many kept points were of no use, as other code had made them."""
    outdated = shown[0].outdated if shown else 0
    if outdated:
        points, were = ("1 point", "was") if outdated == 1 else (f"{outdated} points", "were")
        print(
            f"{points} in {out} {were} made by other code, or by other specs, than there are now, and "
            f"{were} not used: foreserve computes them again.",
            file=sys.stderr,
        )


def _say_failed(results: "Results") -> None:
    """Print each reason once, with the points that it holds for."""
    by_reason: dict[str, list[str]] = {}
    for point, sentence in results.failed:
        by_reason.setdefault(sentence, []).append(str(point))
    for sentence, points in by_reason.items():
        more = f"; and {len(points) - MOST_NAMED} more" if len(points) > MOST_NAMED else ""
        print(f"Failed: {'; '.join(points[:MOST_NAMED])}{more}: {sentence}", file=sys.stderr)
