"""Are measurements read as their files have them, and what says too little refused by file and field?"""

import json

import pytest

from device_model.specs.spec import SpecError
from device_model.validation.measured.measurement import Measurement, Passes
from device_model.validation.measured.step_table import read_step_table
from device_model.validation.measured.vllm_results import LatencyShape, read_results

# Fields of vLLM 0.32.0 that are read, among others that it writes.
LATENCY = {"model_id": "m", "avg_latency": 2.5, "latencies": [2.4, 2.6], "percentiles": {"50": 2.5}}
SERVE = {
    **{"backend": "vllm", "num_prompts": 64, "request_rate": "inf", "max_concurrency": 8, "completed": 64},
    **{"total_input_tokens": 64 * 1000, "total_output_tokens": 64 * 200, "median_itl_ms": 12.5, "median_ttft_ms": 90.0},
}
SHAPE = LatencyShape(batch=8, input=1024, output=128)


def written(tmp_path, text, name="mine.json"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_table_of_steps_is_read_as_it_stands(tmp_path):
    table = written(tmp_path, "seconds,context,batch,gpu\n0.012,1024,8,mine\n1e-2,0,1,mine\n", "steps.csv")
    assert read_step_table(table) == [
        Measurement(f"{table}, line 2", 8, (Passes(1, 1024),), 0.012),
        Measurement(f"{table}, line 3", 1, (Passes(1, 0),), 0.01),
    ]
    prompts = written(tmp_path, "batch,context,seconds,new_tokens\n2,0,0.2,512\n2,9,0.2,\n", "prompts.csv")
    assert [one.passes for one in read_step_table(prompts)] == [(Passes(512, 0),), (Passes(1, 9),)]


def test_a_table_may_be_a_spreadsheet_s(tmp_path):
    table = written(tmp_path, "\ufeffbatch,context,seconds\n8,1024,0.012\n", "steps.csv")
    assert [one.batch for one in read_step_table(table)] == [8]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("batch,context,seconds\n", " has no line below its first; allowed is one for each step that was measured."),
        ("batch,context\n1,2\n", ", line 1: no column seconds; required are batch, context, seconds"),
        ("batch,context,seconds\n1,2,3\n0,2,3\n", ", line 3: batch is '0'; allowed is a whole number from 1 on."),
        ("batch,context,seconds\n1,-2,3\n", ", line 2: context is '-2'; allowed is a whole number from 0 on."),
        ("batch,context,seconds\n1,2,nan\n", ", line 2: seconds is 'nan'; allowed is a number from 1e-09 to 1e+06."),
        ("batch,context,seconds\n8,1,024,0.0095\n", ", line 2: 4 fields, and there are 3 columns; allowed is a field"),
        ("batch,batch,context,seconds\n1,1,2,3\n", ", line 1: the column batch is there more than once"),
        ("batch,context,seconds\n1,2,1e300\n", ", line 2: seconds is '1e300'; allowed is a number from 1e-09"),
        ("batch,context,seconds\n1,2\n", ", line 2: seconds is ''; allowed is a number from 1e-09 to 1e+06."),
        ("batch,context,seconds,new_tokens\n1,2,3,x\n", ", line 2: new_tokens is 'x'; allowed is a whole number"),
        (f"batch,context,seconds\n{'9' * 5000},2,3\n", f", line 2: batch is '{'9' * 40}'; allowed is a whole number"),
        (f"batch,context,seconds\n1,2,{'9' * 150_000}\n", "not valid CSV: field larger than field limit"),
    ],
)
def test_a_bad_table_is_refused_by_line_and_column(tmp_path, text, said):
    with pytest.raises(SpecError) as refused:
        read_step_table(written(tmp_path, text, "steps.csv"))
    assert said in str(refused.value)


def test_a_latency_benchmark_is_a_prompt_and_all_steps_after_its_token(tmp_path):
    path = written(tmp_path, json.dumps(LATENCY, indent=4))
    passes = (Passes(1024, 0), Passes(1, 1024, 127))
    assert read_results(path, SHAPE) == [Measurement(f"{path}, result 1, avg_latency", 8, passes, 2.5)]
    assert read_results(path, SHAPE._replace(output=1))[0].passes == (Passes(1024, 0),)


def test_a_serving_benchmark_is_a_step_in_the_middle_of_its_outputs(tmp_path):
    path = written(tmp_path, json.dumps(SERVE))
    expected = Measurement(f"{path}, result 1, median_itl_ms", 8, (Passes(1, 1100),), 0.0125)
    assert read_results(path, None) == [expected]


def test_one_at_a_time_tells_of_prompts_too(tmp_path):
    alone = SERVE | {"max_concurrency": 1}
    path = written(tmp_path, f"{json.dumps(SERVE)}\n{json.dumps(alone)}")
    found = read_results(path, None)
    assert [one.batch for one in found] == [8, 1, 1]
    assert found[2] == Measurement(f"{path}, result 2, median_ttft_ms", 1, (Passes(1000, 0),), 0.09)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (LATENCY, "vLLM does not write down what a latency benchmark ran; allowed is the file with it"),
        (SERVE | {"max_concurrency": None}, "max_concurrency is None, .* `--max-concurrency N` with at least N"),
        (SERVE | {"request_rate": 4.0}, "request_rate 4.0 .* no `--request-rate`"),
        (SERVE | {"completed": 4}, "completed 4, which does not tell the batch"),
        (SERVE | {"spec_decode_acceptance_rate": 70.0}, "it speculated; allowed is plain decoding"),
        (SERVE | {"median_itl_ms": 0.0}, "median_itl_ms is 0.0; allowed is a number above 0"),
        (SERVE | {"total_input_tokens": 3}, "total_input_tokens is 3 of .* allowed are prompts of a token or more"),
        (SERVE | {"total_input_tokens": None}, "total_input_tokens is None; allowed is a number above 0"),
        ({"throughput": 3}, "there is neither avg_latency nor median_itl_ms"),
        ([1, 2], "there is neither avg_latency nor median_itl_ms"),
    ],
)
def test_a_result_that_says_too_little_is_refused(tmp_path, result, said):
    with pytest.raises(SpecError, match=said):
        read_results(written(tmp_path, json.dumps(result)), None)


def test_a_file_that_is_no_json_is_refused_by_line(tmp_path):
    with pytest.raises(SpecError, match=r"mine.json, line 2: not valid JSON"):
        read_results(written(tmp_path, '{"a": 1}\nbatch,context\n'), None)
    for nothing in ("[" * 100_000, '{"median_itl_ms": %s}' % ("1" * 5000)):
        with pytest.raises(SpecError, match=r"mine.json: not what vLLM writes"):
            read_results(written(tmp_path, nothing), None)
    with pytest.raises(SpecError, match="can't be read"):
        read_results(tmp_path / "none.json", None)
