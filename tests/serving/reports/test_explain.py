"""`foreserve explain`: does it say what runs where on hardware of each kind, in the names of its tiers?"""

import io
import re
from collections.abc import Iterator
from contextlib import suppress

import pytest
from rich.console import Console

from device_model.load import systems_on
from device_model.specs.hardware_file import FOLDER, load_hardware
from device_model.specs.spec import DeviceError, UnknownName
from device_model.specs.spec_file import names_in
from serving.cli.main import make_parser
from serving.reports.explain import show
from serving.reports.explanation import CALIBRATED, Drafts, Explanation, explained
from serving.usage_error import UsageError

DRAFTS = ("none", "auto", "elastic")
HEADS = {"elmoe3d-8gb": "HB", "stratum-s": "MONO3D", "a6000": "HBM"}


def told(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    args = make_parser().parse_args(["explain", *options])
    assert args.run(args) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("hardware", HEADS)
def test_the_parts_of_a_step_add_up(capsys: pytest.CaptureFixture[str], hardware: str) -> None:
    text = told(capsys, "--hardware", hardware, "--model", "olmoe-1b-7b", "--batch", "4")
    assert f"{HEADS[hardware]} MB" in text
    step_ms = float(re.search(r"^Step: ([\d.]+) ms", text, re.MULTILINE)[1])  # type: ignore[index]
    rows = re.findall(r"^\S.*?\s(\d+\.\d{3})\s", text.partition("Step: ")[0], re.MULTILINE)
    assert len(rows) >= 3 and max(map(float, rows)) <= step_ms <= sum(map(float, rows)) + 1e-3 * len(rows)


def test_hits_on_stratum_are_hot(capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "--hardware", "stratum-l", "--model", "mixtral-8x7b")
    assert "mixtral-8x7b on stratum (stratum-l)" in text and "% hot" in text and "latencies" in text
    assert "interposer" in text and "bound by" in text


def test_a_draft_is_named_as_to_serve(capsys: pytest.CaptureFixture[str]) -> None:
    plain, none, own, elastic = (told(capsys, *options) for options in ((), *(("--draft", name) for name in DRAFTS)))
    assert none == plain and "drafts" not in plain
    assert own == elastic and "of 11 drafts" in elastic


def test_a_step_beyond_hb_is_told_under_either_law(capsys: pytest.CaptureFixture[str]) -> None:
    batch = ("--hardware", "elmoe3d-8gb", "--batch", "16")
    assert "Beyond HB: 1," in told(capsys, *batch, "--law", "published")
    bounded = told(capsys, *batch)
    assert re.search(
        r"HB serves all 1,\d+ experts that it holds; its paper's hit rate, as fitted here, would need 1,\d+", bounded
    )
    alone = told(capsys, "--hardware", "elmoe3d-8gb")
    assert "HB serves all" not in alone and "Beyond" not in alone


def test_a_step_beyond_what_was_published_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Beyond what its paper published: a batch of 17, where 16 is the largest." in told(capsys, "--batch", "17")
    stratum = told(capsys, "--hardware", "stratum-l", "--model", "mixtral-8x7b", "--batch", "17")
    assert "Beyond what its paper" not in stratum


@pytest.mark.parametrize(
    "options, sentence",
    [
        (("--hardware", "npu-64t", "--law", "published"), "no device is one of its paper's"),
        (("--acceptance", "measured"), "nothing drafts"),
        (("--depth", "3"), "nothing drafts"),
        (("--hardware", "stratum-l", "--draft", "auto", "--depth", "3"), "nothing drafts"),
    ],
)
def test_what_serve_refuses_is_refused_here(options: tuple[str, ...], sentence: str) -> None:
    args = make_parser().parse_args(["explain", *options])
    with pytest.raises(UsageError, match=sentence):
        args.run(args)


def test_an_unknown_draft_is_answered_with_all_that_are_allowed() -> None:
    args = make_parser().parse_args(["explain", "--draft", "x"])
    with pytest.raises(UnknownName, match=r"no draft scheme 'x'; those that exist are eagle, .*, slm, none, auto\.$"):
        args.run(args)


@pytest.mark.parametrize("hardware", HEADS)
def test_a_narrow_terminal_has_the_reasons_below_the_table(hardware: str) -> None:
    names = ("auto", hardware, "olmoe-1b-7b", "realisable")
    found = explained(names, Drafts(None, CALIBRATED, "published"), 4, 1024)
    texts = {}
    for width in (80, 160):
        console = Console(width=width, file=io.StringIO())
        show(found, console)
        texts[width] = console.file.getvalue()  # type: ignore[attr-defined]
        assert max(map(len, texts[width].splitlines())) <= width
    narrow = " ".join(texts[80].split())
    assert all(row.why in narrow and f"{row.seconds * 1e3:.3f}" in texts[80] for row in found.rows)
    assert "why there" in texts[160] and "why there" not in texts[80]


@pytest.mark.parametrize("hardware", names_in(FOLDER))
@pytest.mark.parametrize(("batch", "context"), [(1, 128), (256, 1024)])
def test_no_name_is_cut_at_80_columns(hardware: str, batch: int, context: int) -> None:
    for system in systems_on(load_hardware(hardware).kind):
        for draft in (None, "auto"):
            for found in steps((system, hardware), Drafts(draft, CALIBRATED, "published"), batch, context):
                console = Console(width=80, file=io.StringIO())
                show(found, console)
                text = console.file.getvalue()  # type: ignore[attr-defined]
                words = {word for row in found.rows for name in (row.operator, row.unit) for word in name.split()}
                tiers = {tier.upper() for tier in found.device.tiers}
                figures = {f"{row.macs / 1e9:,.0f}" for row in found.rows if row.macs >= 1e11}
                assert not (words | tiers | figures) - set(text.split()) and "\u2026" not in text


def steps(names: tuple[str, str], drafts: Drafts, batch: int, context: int) -> Iterator[Explanation]:
    """Yield a step of a small and of a large model, where they fit."""
    for model in ("olmoe-1b-7b", "mixtral-8x7b"):
        with suppress(DeviceError, UsageError):
            yield explained((*names, model, "realisable"), drafts, batch, context)
