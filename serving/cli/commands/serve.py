"""`foreserve serve`: emulate an accelerator behind OpenAI's API, until Ctrl-C."""

import argparse
import contextlib
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from serving.cli.arguments.scenario import add_scenario, prepare_of
from serving.edge import observation as observing
from serving.scenario.options import named_path

if TYPE_CHECKING:
    from serving.edge.preflight import PreparedScenario

log = logging.getLogger("foreserve")

SERVE_FILES = {
    "--ready-file": "write the addresses there, as JSON, when ready",
    "--discovery-file": "write them there for Prometheus to find (file_sd), as long as the server is up",
}

SHOWN = (
    "A key on the command line is in the shell's history, and `ps` showed it for a moment: use --api-key-file and "
    "--admin-key-file, or FORESERVE_API_KEYS and FORESERVE_ADMIN_KEY."
)


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    serve = commands.add_parser("serve", help="emulate an accelerator behind OpenAI's API, over HTTP and gRPC")
    add_scenario(serve)
    for option, what in SERVE_FILES.items():
        serve.add_argument(option, type=named_path, metavar="FILE", help=what)
    observing.add_arguments(serve)
    serve.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run `foreserve serve` until Ctrl-C; return its exit code. Raise UsageError and DeviceError."""
    import uvloop

    from serving.cli.announcements import check_folder, tell
    from serving.cli.server_start import begun
    from serving.cli.start_progress import StartProgress
    from serving.process.process_age import process_age_s
    from serving.process.shutdown import LOST, end_at_once_when_told

    end_at_once_when_told()
    check_folder(args.ready_file, "--ready-file")
    check_folder(args.discovery_file, "--discovery-file")
    if args.api_keys or args.admin_keys:
        log.warning(SHOWN)
    with contextlib.ExitStack() as stack:
        progress = stack.enter_context(StartProgress(tell, began_s=time.monotonic() - process_age_s()))
        progress.waits_for("Checking the scenario ...")
        checked = prepare_of(args, progress)
        progress.waits_for("Working out from which batch on it drafts ...")
        stack.callback(checked.sock.close)
        args.api_keys = args.admin_keys = None
        # Files of logs are opened only once all else is right.
        prepared = replace(checked, observing=observing.observe(args, stack))
        introduce(prepared)
        start = stack.enter_context(begun(prepared.scenario, progress))
        # Not before: Ray comes with them.
        from serving.cli.emulation import serve
        from serving.cluster.supervision.ray_watch import RayLost

        try:
            uvloop.run(serve(prepared, start, args.ready_file, args.discovery_file))
        except RayLost:
            return LOST
    return 0


def introduce(prepared: "PreparedScenario") -> None:
    """Say what is about to be emulated, when it drafts, and what is unsafe about it."""
    from serving.cli.announcements import tell
    from serving.device.drafting_ranges import told_drafting
    from serving.scenario.fleet import described
    from serving.security.access import concerns

    scenario = prepared.scenario
    for sentence in concerns(prepared.access, scenario.host, encrypted=scenario.encrypted):
        log.warning(sentence)
    tell(f"foreserve: {scenario.model} on {described(scenario.members)}, speed {scenario.speed:g}")
    for sentence in told_drafting((spec for spec, _ in prepared.fleet), scenario.max_num_seqs, prepared.max_model_len):
        tell(sentence)
