"""`foreserve demo`: the main job from end to end, bounded: serve, stream one reply, send a load, print its cost."""

import contextlib
from dataclasses import replace
from functools import partial
from pathlib import Path

import openai
import uvloop

from serving.cli.start_progress import StartProgress
from serving.load.options import LoadOptions
from serving.load.run import run_load
from serving.presentation.wide_console import wide_console
from serving.process.progress_line import ProgressLine
from serving.process.server_process import ServerProcess, server
from serving.scenario.command_line import options_of
from serving.scenario.fleet import described
from serving.scenario.scenario import BUNDLED_MODEL, Scenario, ScenarioError
from serving.security.api_keys import api_keys, environment_of
from serving.security.client_trust import Trust
from serving.token_source.vllm_args import served_name
from serving.usage_error import CommandFailed

LOOPBACK = "127.0.0.1"
QUESTION = "What is a cache?"
REPLY_TOKENS = 48
LOAD = {"rate_per_s": 1.5, "num_requests": 30, "input_len": 128, "output_len": 48}


def demo(scenario: Scenario) -> int:
    """Run the demo; return 0 if every request was served, else 1. Raise ScenarioError and CommandFailed."""
    scenario = replace(scenario, host=LOOPBACK)  # where it is looked for, whatever the file says
    keys, trust = api_keys(scenario), trust_in(scenario)
    with contextlib.ExitStack() as stack:
        progress = stack.enter_context(StartProgress(partial(print, flush=True)))
        progress(f"Bringing up {described(scenario.members)} with {scenario.model} ...")
        options, environment = options_of(scenario), environment_of(scenario)
        child = stack.enter_context(server(*options, quiet=True, environment=environment))
        progress.done()
        print(f"Ready in {child.ready_s:.1f} s: {child.http_url}/v1 and {child.grpc_url}")
        key = keys[0] if keys else None
        print(f"\n--- {QUESTION!r}, answered by {answerer(scenario)} at the emulated device's pace ---", flush=True)
        show_reply(child, served_name(scenario), key, trust)
        return show_load(child, key, trust)


def trust_in(scenario: Scenario) -> Trust:
    """Return the trust of a client of our own server. Raise ScenarioError if clients need certificates."""
    if scenario.tls_client_ca:
        raise ScenarioError("`tls_client_ca` is set: the demo has no certificate to show. Leave it out.")
    return Trust(ca_file=scenario.tls_cert, pinned=True)


def answerer(scenario: Scenario) -> str:
    """Return who makes the text of a reply, in words."""
    model = Path(scenario.token_model)
    return "the bundled token model" if model == BUNDLED_MODEL else f"the token model {model.name}"


def show_reply(child: ServerProcess, model: str, api_key: str | None, trust: Trust) -> None:
    """Print one streamed reply, at the emulated pace. Raise CommandFailed with what the server says if it refuses."""
    try:
        _stream(child, model, api_key, trust)
    except openai.OpenAIError as error:
        raise CommandFailed(f"The server gave no reply to {QUESTION!r}: {error}") from error


def _stream(child: ServerProcess, model: str, api_key: str | None, trust: Trust) -> None:
    # A proxy that the environment names may not reach this machine.
    http = openai.DefaultHttpxClient(verify=trust.context(), trust_env=False)
    client = openai.OpenAI(base_url=f"{child.http_url}/v1", api_key=api_key or "none", http_client=http)
    with client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": QUESTION}],
        temperature=0,
        max_tokens=REPLY_TOKENS,
        stream=True,
    ) as stream:
        for chunk in stream:
            print(chunk.choices[0].delta.content or "", end="", flush=True)
    print("\n")


def show_load(child: ServerProcess, api_key: str | None, trust: Trust) -> int:
    """Send a bounded load over HTTP and print its table; return 0 if every request completed, else 1."""
    options = LoadOptions(url=child.http_url, api_key=api_key, trust=trust, **LOAD)  # type: ignore[arg-type]
    print(f"--- {options.num_requests} requests, {options.rate_per_s:g} per second, Poisson ---", flush=True)
    with ProgressLine() as line:
        report = uvloop.run(run_load(options, line))
    report.show(wide_console())
    return 0 if report.summary.completed == options.num_requests else 1
