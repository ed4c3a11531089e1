"""Runs of `musacoder-train sft` by several processes over gloo, against a run by one."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest
from llm_support import ROOT, require_train

require_train("transformers", "tokenizers", "safetensors", "torch")

from safetensors.torch import load_file  # noqa: E402
from sft_support import command, final, make_model, metrics, train, write_config  # noqa: E402

KEYS = dict(
    train__steps=6,
    train__batch_rows=5,
    data__packing=False,
    optimizer__lr=0.005,
    optimizer__epsilon=1e-6,
    schedule__warmup=2,
    checkpoint__every=3,
)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(config, world, *more):
    port = free_port()
    return [
        subprocess.Popen(
            command(config, *more),
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ
            | dict(
                RANK=str(rank),
                WORLD_SIZE=str(world),
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(port),
                LOCAL_RANK="0",
            ),
        )
        for rank in range(world)
    ]


def together(config, world, *more):
    processes = start(config, world, *more)
    errors = [process.communicate(timeout=240)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * world, errors
    return errors


def losses(run):
    return [(line["train/loss"], line["train/grad_norm"]) for line in metrics(run)]


def same(one, two, bound):
    a, b = (load_file(final(run) / "model/model.safetensors") for run in (one, two))
    for name in a:
        off = ((a[name].float() - b[name].float()).norm() / a[name].float().norm()).item()
        assert off <= bound, f"{name}: {off:.1e}"


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    make_model(folder / "model")
    train(write_config(folder, folder / "model", **KEYS))
    return folder


# Sums over processes are added in another order: losses agree to 1e-5, weights after six steps to 1e-4.
@pytest.mark.parametrize(
    "world, shard", [(2, "optimizer"), (3, "optimizer"), (2, "parameters"), (3, "parameters")]
)
def test_the_losses_are_those_of_one_process(world, shard, alone, tmp_path):
    config = write_config(tmp_path, alone / "model", parallel__shard=shard, **KEYS)
    errors = together(config, world)
    assert f"on {world} processes" in errors[0] and "trained step 6" in errors[0]
    assert not errors[1].strip(), "only the first speaks"
    for (loss, norm), (want, want_norm) in zip(losses(tmp_path / "run"), losses(alone / "run"), strict=True):
        assert loss == pytest.approx(want, rel=1e-5)
        assert norm == pytest.approx(want_norm, rel=1e-4)
    same(tmp_path / "run", alone / "run", 1e-4)


@pytest.mark.parametrize(
    "first, then", [((1, "optimizer"), (3, "parameters")), ((3, "parameters"), (1, "optimizer"))]
)
def test_any_number_of_processes_goes_on_from_what_another_wrote(first, then, alone, tmp_path):
    for (world, shard), steps in ((first, 3), (then, 6)):
        config = write_config(tmp_path, alone / "model", parallel__shard=shard, **KEYS)
        # The first ends at its checkpoint of step 3, its schedule being the whole run's.
        together(config, world)
        if steps == 3:
            shutil.rmtree(tmp_path / "run/checkpoints/step-00000006")
    for (loss, _), (want, _) in zip(losses(tmp_path / "run"), losses(alone / "run"), strict=True):
        assert loss == pytest.approx(want, rel=1e-5)
    same(tmp_path / "run", alone / "run", 1e-4)


def test_bfloat16_and_passes_and_recomputation_by_two(alone, tmp_path):
    more = dict(model__type="bf16", train__pass_rows=2, train__recompute=True)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    train(write_config(tmp_path / "one", alone / "model", **KEYS | more))
    together(write_config(tmp_path / "two", alone / "model", parallel__shard="parameters", **KEYS | more), 2)
    for (loss, _), (want, _) in zip(losses(tmp_path / "two/run"), losses(tmp_path / "one/run"), strict=True):
        assert loss == pytest.approx(want, rel=2e-2)


def test_adapters_by_two(alone, tmp_path):
    more = dict(lora__rank=2, lora__targets=["q_proj", "down_proj"])
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    train(write_config(tmp_path / "one", alone / "model", **KEYS | more))
    together(write_config(tmp_path / "two", alone / "model", **KEYS | more), 2)
    for (loss, _), (want, _) in zip(losses(tmp_path / "two/run"), losses(tmp_path / "one/run"), strict=True):
        assert loss == pytest.approx(want, rel=1e-5)


def test_a_signal_to_one_ends_all_with_a_checkpoint(alone, tmp_path):
    config = write_config(tmp_path, alone / "model", **KEYS | dict(train__steps=100000, checkpoint__every=0))
    processes = start(config, 2)
    while not (tmp_path / "run/metrics.jsonl").exists() or not (tmp_path / "run/metrics.jsonl").read_text():
        assert processes[0].poll() is None
        time.sleep(0.05)
    processes[1].send_signal(signal.SIGTERM)
    errors = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [4, 4], errors
    assert (final(tmp_path / "run") / "trainer.json").exists()


def test_a_lost_process_ends_the_others(alone, tmp_path):
    config = write_config(tmp_path, alone / "model", **KEYS | dict(train__steps=100000, checkpoint__every=0))
    processes = start(config, 2)
    while not (tmp_path / "run/metrics.jsonl").exists() or not (tmp_path / "run/metrics.jsonl").read_text():
        assert processes[0].poll() is None
        time.sleep(0.05)
    processes[1].kill()
    error = processes[0].communicate(timeout=60)[1]
    processes[1].communicate()
    assert processes[0].returncode == 3 and "another process of the run is gone" in error, error


@pytest.mark.parametrize(
    "variables, message",
    [
        (dict(WORLD_SIZE="2"), "RANK=''"),
        (dict(WORLD_SIZE="2", RANK="2"), "RANK='2' must be a whole number from 0 to 1"),
        (dict(WORLD_SIZE="2", RANK="0"), "MASTER_ADDR is missing"),
        (dict(WORLD_SIZE="2", RANK="0", MASTER_ADDR="localhost", MASTER_PORT="x"), "MASTER_PORT='x'"),
        (dict(WORLD_SIZE="two"), "WORLD_SIZE='two'"),
    ],
)
def test_a_wrong_environment_is_said(variables, message, alone, tmp_path):
    done = train(write_config(tmp_path, alone / "model", **KEYS), check=False, env=variables)
    assert done.returncode == 2 and message in done.stderr


def test_torchrun_starts_it(alone, tmp_path):
    config = write_config(tmp_path, alone / "model", **KEYS)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--no-python", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*torchrun, "--master-port", str(free_port()), *command(config)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0 and "on 2 processes" in done.stderr, done.stderr
    for (loss, _), (want, _) in zip(losses(tmp_path / "run"), losses(alone / "run"), strict=True):
        assert loss == pytest.approx(want, rel=1e-5)


def test_the_nccl_backend_fits_this_torch():
    """All that needs no GPU: every symbol that the library takes from libtorch_cuda is there."""
    library = ROOT / "build" / "runtime" / "lib" / "libmusacoder_nccl.so"
    if not library.exists():
        pytest.skip("this build has no NCCL backend: torch's wheel has no CUDA libraries")
    load = "import ctypes, os, sys, torch; ctypes.CDLL(sys.argv[1], os.RTLD_NOW).musacoder_nccl_backend"
    done = subprocess.run([sys.executable, "-c", load, library], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
