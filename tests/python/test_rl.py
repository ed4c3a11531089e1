"""`musacoder-train rl` with a tiny model and a scripted verifier: what it learns, what it survives, what it counts."""

import json
import os
import pathlib
import resource
import signal
import subprocess
import time

import pytest
from llm_support import require_train

require_train("transformers", "tokenizers", "safetensors", "torch")

from rl_support import accounted, command, environment, metrics, train, untimed, write_config  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from scripted_verifier import ScriptedVerifier  # noqa: E402
from sft_support import final, make_model  # noqa: E402
from test_sft_parallel import free_port  # noqa: E402


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "model"
    make_model(folder)
    return folder


def weights(run):
    return (final(run) / "model" / "model.safetensors").read_bytes()


# Multi-turn, retries, several updates and a mask: everything whose state a checkpoint has to keep.
EVERYTHING = dict(
    rollout__turns=2,
    rollout__warmup_steps=2,
    retry__probability=0.5,
    train__mini_batches=2,
    checkpoint__every=2,
    objective__mask_delta=0.5,
)


@pytest.fixture(scope="module")
def whole(model, tmp_path_factory):
    """A run that nothing disturbs; a part of its jobs ends in infra at the first try."""
    folder = tmp_path_factory.mktemp("whole")
    began = time.monotonic()
    train(write_config(folder, model, **EVERYTHING), MUSACODER_SCRIPTED_INFRA="5")
    return folder / "run", time.monotonic() - began


def test_it_learns_and_every_sample_is_counted(model, tmp_path):
    config = write_config(
        tmp_path,
        model,
        train__steps=14,
        rollout__batch=4,
        eval__every=14,
        eval__samples=4,
        tasks__eval=[str(tmp_path / "tasks.jsonl")],
        eval__verifier_args=[],
    )
    train(config)
    lines = metrics(tmp_path / "run")
    assert [line["step"] for line in lines] == list(range(15))
    steps = lines[1:]
    assert (
        sum(line["reward/mean"] for line in steps[-4:]) / 4
        > sum(line["reward/mean"] for line in steps[:4]) / 4 + 0.15
    )
    for line in steps:
        assert accounted(line) == line["step"] * 16
        assert line["groups/all"] == 4 and line["staleness/max"] == 0
        # What sampled and what is trained are the same weights, in float32.
        assert line["ratio/abs_max"] < 1e-3
        assert 0 < line["rollout/entropy"] < 6 and line["train/grad_norm"] >= 0
    assert {"eval/pass@1", "eval/pass@4", "eval/avg@4", "eval/null"} <= lines[0].keys() & lines[-1].keys()
    answers = [json.loads(line) for line in (tmp_path / "run" / "answers.jsonl").read_text().splitlines()]
    assert len(answers) == 28 and all(
        a["turns"][0]["feedback"].startswith("=== System Feedback for Round 1") for a in answers
    )


def test_faults_of_the_verifier_are_tried_again(whole):
    lines = metrics(whole[0])
    assert sum(line["verify/tried_again"] for line in lines) > 0
    assert all(line["status/infra"] == 0 and line["verify/null"] == 0 for line in lines)
    assert max(line["turns/mean"] for line in lines) > 1 >= lines[0]["turns/mean"]
    assert lines[-1]["retry/pushed"] + lines[-1]["groups/all_failed"] >= 0


def test_a_run_that_is_killed_again_and_again_ends_with_the_same_bits(model, whole, tmp_path):
    run, whole_s = whole
    config = write_config(tmp_path, model, **EVERYTHING)
    kills = 0
    for attempt in range(12):
        process = subprocess.Popen(
            command(config), stderr=subprocess.DEVNULL, env=environment(MUSACODER_SCRIPTED_INFRA="5")
        )
        # Later each time, so that it gets on.
        try:
            process.wait(whole_s * (0.25 + 0.12 * attempt))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
            continue
        assert process.returncode == 0
        break
    else:
        pytest.fail("it never came to its end")
    assert kills >= 2
    assert weights(tmp_path / "run") == weights(run)
    assert untimed(tmp_path / "run") == untimed(run)
    assert (tmp_path / "run/answers.jsonl").read_bytes() == (run / "answers.jsonl").read_bytes()


def test_asynchronous_rollouts_stay_within_their_bound_and_go_on_after_a_kill(model, tmp_path):
    config = write_config(
        tmp_path,
        model,
        rollout__mode="async",
        rollout__staleness=1,
        train__steps=8,
        checkpoint__every=1,
        rollout__turns=2,
    )
    process = subprocess.Popen(
        command(config), stderr=subprocess.DEVNULL, env=environment(MUSACODER_SCRIPTED_DELAY_S="0.05")
    )
    while process.poll() is None and not (tmp_path / "run/checkpoints/step-00000003").exists():
        time.sleep(0.02)
    process.kill()
    process.wait()
    train(config, MUSACODER_SCRIPTED_DELAY_S="0.05")
    lines = metrics(tmp_path / "run")
    assert [line["step"] for line in lines] == list(range(1, 9))
    for line in lines:
        planned = accounted(line)
        assert planned % 4 == 0 and planned >= line["step"] * 12 - line["account/stale"]
        assert line["account/in_flight"] <= 2 * 12
        # Tokens that were trained are at most one step old.
        assert all(int(key.split("_")[1].split("/")[0]) <= 1 for key in line if key.startswith("ratio/age_"))
    assert max(line["staleness/max"] for line in lines) >= 1
    left = json.loads((final(tmp_path / "run") / "rollouts.json").read_text())
    assert (len(left["starts"]) + len(left["groups"])) * 4 == lines[-1]["account/in_flight"]


def test_two_processes_train_what_one_does(model, tmp_path):
    keys = dict(train__steps=3, optimizer__lr=0.003, optimizer__epsilon=1e-6)
    train(write_config(tmp_path / "one", model, **keys))
    config, port = write_config(tmp_path / "two", model, **keys), free_port()
    processes = [
        subprocess.Popen(
            command(config),
            stderr=subprocess.PIPE,
            text=True,
            env=environment(
                RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), LOCAL_RANK="0"
            ),
        )
        for rank in range(2)
    ]
    errors = [process.communicate(timeout=240)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    for one, two in zip(metrics(tmp_path / "one/run"), metrics(tmp_path / "two/run"), strict=True):
        for name in (
            "reward/mean",
            "train/loss",
            "train/grad_norm",
            "train/tokens",
            "ratio/abs_p99",
            "account/trained",
        ):
            assert two[name] == pytest.approx(one[name], rel=1e-3, abs=1e-5), name
    a, b = (load_file(final(tmp_path / name / "run") / "model/model.safetensors") for name in ("one", "two"))
    for name in a:
        assert (a[name] - b[name]).norm() / a[name].norm() < 1e-3, name


def children(pid):
    text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    tasks = pathlib.Path(f"/proc/{pid}/task")
    for task in tasks.iterdir():
        text += (task / "children").read_text().split()
    return {int(one) for one in text}


def test_a_lost_verifier_is_started_again(model, tmp_path):
    config = write_config(tmp_path, model, train__steps=4, verifier__timeout_s=60)
    process = subprocess.Popen(
        command(config), stderr=subprocess.PIPE, text=True, env=environment(MUSACODER_SCRIPTED_DELAY_S="0.3")
    )
    while process.poll() is None and not (tmp_path / "run/metrics.jsonl").exists():
        time.sleep(0.02)
    for child in children(process.pid):
        os.kill(child, signal.SIGKILL)
    error = process.communicate(timeout=120)[1]
    assert process.returncode == 0, error
    lines = metrics(tmp_path / "run")
    assert lines[-1]["verify/restarts"] >= 1
    assert all(line["verify/null"] == 0 for line in lines)


def test_a_service_that_is_busy_or_without_a_verdict_is_waited_for_or_null(model, tmp_path):
    def some(job):
        return (
            (None, "inconclusive:shape_specialised", "")
            if len(job["candidate"]) % 2
            else (-1.0, "correctness_error:values", "no")
        )

    with ScriptedVerifier(some, token="t" * 20) as service:
        service.refuse = 3
        token = tmp_path / "token"
        token.write_text("t" * 20 + "\n")
        keys = dict(
            verifier__url=service.url,
            verifier__token_file=str(token),
            train__steps=3,
            rollout__informative_only=True,
            rollout__waves=1,
        )
        train(write_config(tmp_path, model, **keys))
        lines = metrics(tmp_path / "run")
        assert service.refuse == 0
        assert lines[-1]["account/null"] == sum(line["status/inconclusive"] for line in lines) > 0
        # Nothing is left to train where all rewards are equal.
        assert lines[-1]["account/trained"] == 0 and lines[-1]["account/equal"] > 0
        assert all(line["train/updates"] == 0 for line in lines)
        (tmp_path / "token").write_text("x" * 20)
        done = train(
            write_config(tmp_path, model, name="b.toml", **keys | {"run.dir": str(tmp_path / "b")}),
            check=False,
        )
        assert done.returncode == 3 and "infra:refused" in done.stderr


def test_mistakes_end_before_anything_is_started(model, tmp_path):
    def message(**keys):
        done = train(write_config(tmp_path, model, **keys), check=False)
        assert done.returncode == 2
        return done.stderr

    assert "no task's prompt fits" in message(rollout__prompt_tokens=3)
    assert "is not there" in message(verifier__program="/nowhere/musacoder")
    train(write_config(tmp_path, model, train__steps=1))
    assert "run.seed" in message(run__seed=5, train__steps=2)


def test_a_full_disk_is_said_and_leaves_the_checkpoint_before(model, tmp_path):
    config = write_config(tmp_path, model, train__steps=100000, checkpoint__every=1)
    process = subprocess.Popen(
        command(config),
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )
    latest = tmp_path / "run/checkpoints/latest"
    while process.poll() is None and not latest.exists():
        time.sleep(0.02)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (40_000, 40_000))
    error = process.communicate(timeout=120)[1]
    assert process.returncode == 3, error
    assert "cannot write" in error and "File too large" in error
    assert (latest / "rollouts.json").exists() and (latest / "trainer.json").exists()


def test_a_signal_stops_behind_a_step(model, tmp_path):
    config = write_config(tmp_path, model, train__steps=500)
    process = subprocess.Popen(command(config), stderr=subprocess.PIPE, text=True, env=environment())
    while process.poll() is None and not (tmp_path / "run/metrics.jsonl").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == 4, error
    assert final(tmp_path / "run").exists()
