"""`musacoder port` and `musacoder prompt` with the real program: files, folders, rows, refusals, and the MUSA edition."""

import json
import os
import pathlib
import subprocess

import pytest
from toolchain import find_nvcc

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUSACODER = ROOT / "build" / "musacoder"
DATA = pathlib.Path(os.environ.get("MUSACODER_DATA", ROOT.parent / "shared" / "data"))

pytestmark = pytest.mark.skipif(not MUSACODER.exists(), reason="the program is not built")

KERNEL = '#include <cuda_runtime.h>\n#include "sub/h.cuh"\n__global__ void k(float* x) { asm("nop;"); }\nvoid f() { cudaFree(0); }\n'
PORTED = '#include <musa_runtime.h>\n#include "sub/h.muh"\n__global__ void k(float* x) { asm("nop;"); }\nvoid f() { musaFree(0); }\n'


def musacoder(*arguments, cwd=None, code=0):
    done = subprocess.run([MUSACODER, *map(str, arguments)], capture_output=True, text=True, timeout=500, check=False, cwd=cwd)
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture
def folder(tmp_path):
    """A small project: sources, a build file, a program, what is no text, what is hidden."""
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "k.cu").write_text(KERNEL)
    (source / "sub" / "h.cuh").write_text("cudaStream_t s;\n")
    (source / "CMakeLists.txt").write_text("find_package(CUDA)\ncuda_add_library(k k.cu)\n")
    (source / "run.py").write_text("import torch\nx = torch.zeros(1, device='cuda')\n")
    (source / "run.py").chmod(0o755)
    (source / "README.md").write_text("cudaFree frees.\n")
    (source / "data.bin").write_bytes(b"cudaFree\0\1\2")
    (source / ".hidden.cu").write_text(KERNEL)
    (source / "link.cu").symlink_to("k.cu")
    return source


def files_of(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_one_file_to_stdout_file_and_back(folder, tmp_path):
    done = musacoder("port", folder / "k.cu")
    assert done.stdout == PORTED
    assert "inline_ptx" in done.stderr
    musacoder("port", folder / "k.cu", "-o", tmp_path / "k.mu", "--quiet")
    assert (tmp_path / "k.mu").read_text() == PORTED
    assert musacoder("port", tmp_path / "k.mu", "--to", "cuda").stdout == KERNEL


def test_folder_there_and_back(folder, tmp_path):
    out, back = tmp_path / "out", tmp_path / "back"
    done = musacoder("port", folder, "-o", out, "--report", tmp_path / "report.json")
    assert "4 of 6 files changed" in done.stdout
    assert files_of(out) == {
        "k.mu": PORTED.encode(),
        "sub/h.muh": b"musaStream_t s;\n",
        "CMakeLists.txt": b"find_package(MUSA)\nmusa_add_library(k k.mu)\n",
        "run.py": b"import torch, torch_musa\nx = torch.zeros(1, device='musa')\n",
        "README.md": b"cudaFree frees.\n",
        "data.bin": b"cudaFree\0\1\2",
    }
    assert os.access(out / "run.py", os.X_OK) and not os.access(out / "k.mu", os.X_OK)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["to"] == "musa" and report["reversible"]
    assert report["attention_kinds"] == {"inline_ptx": 1}
    [kernel] = [f for f in report["files"] if f["to"] == "k.mu"]
    assert kernel["names"]["cudaFree"] == {"to": "musaFree", "group": "runtime", "count": 1}
    assert kernel["attention"][0]["line"] == 3
    musacoder("port", out, "--to", "cuda", "-o", back, "--quiet")
    want = {name: text for name, text in files_of(folder).items() if name not in (".hidden.cu", "link.cu")}
    assert files_of(back) == want


def test_hidden_files_and_what_git_ignores(folder, tmp_path):
    subprocess.run(["git", "init", "-q", folder], check=True)
    (folder / ".gitignore").write_text("sub/\n*.bin\n")
    musacoder("port", folder, "-o", tmp_path / "a", "--quiet")
    assert set(files_of(tmp_path / "a")) == {"k.mu", "CMakeLists.txt", "run.py", "README.md"}
    musacoder("port", folder, "-o", tmp_path / "b", "--quiet", "--hidden")
    assert set(files_of(tmp_path / "b")) == {"k.mu", ".hidden.mu", ".gitignore", "data.bin", "sub/h.muh", "CMakeLists.txt", "run.py", "README.md"}


def test_in_place_diff_and_dry_run(folder):
    before = files_of(folder)
    done = musacoder("port", folder, "--diff", "--quiet")
    assert "-#include <cuda_runtime.h>\n-#include \"sub/h.cuh\"\n+#include <musa_runtime.h>\n+#include \"sub/h.muh\"\n" in done.stdout
    patch = subprocess.run(["patch", "-p0", "--dry-run", "-d", "/"], input=done.stdout, capture_output=True, text=True, check=False)
    assert patch.returncode == 0 or "not found" in patch.stderr, patch.stdout + patch.stderr
    assert "names to musa" in musacoder("port", folder, "--dry-run").stdout
    assert files_of(folder) == before
    (folder / "link.cu").unlink()
    musacoder("port", folder, "--in-place", "--quiet")
    assert (folder / "k.mu").read_text() == PORTED and not (folder / "k.cu").exists()
    musacoder("port", folder, "--in-place", "--to", "cuda", "--quiet")
    before.pop("link.cu")
    assert files_of(folder) == before


def test_nothing_is_written_over(folder, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("x")
    assert "exists" in musacoder("port", folder, "-o", out, code=2).stderr
    assert files_of(out) == {"mine": b"x"}
    musacoder("port", folder, "-o", out, "-f", "--quiet")
    assert (out / "mine").exists() and (out / "k.mu").exists()
    (folder / "k.mu").write_text("x")
    assert "k.mu exists" in musacoder("port", folder, "--in-place", code=2).stderr
    assert (folder / "k.cu").read_text() == KERNEL
    assert "would both be written to k.mu" in musacoder("port", folder, "-o", tmp_path / "other", code=2).stderr
    assert not (tmp_path / "other").exists() and not list(tmp_path.glob("other.partial*"))


def test_rows_keep_what_is_not_ported(tmp_path):
    rows = tmp_path / "rows.jsonl"
    lines = [
        '{"task": "t", "candidate": "#include <cuda.h>\\nint caf\\u00e9 = CUDA_SUCCESS;\\n", "x": 1.0, "nested": {"candidate": "cudaFree"}}\n',
        "\n",
        '{ "x":1e5 ,  "candidate":"import torch\\nd = \'cuda\'" , "é": "cudaFree(p)" }\n',
        '{"candidate": "x = 1"}',
    ]
    rows.write_text("".join(lines), encoding="utf-8")
    musacoder("port", rows, "-o", tmp_path / "out.jsonl", "--quiet")
    out = (tmp_path / "out.jsonl").read_text(encoding="utf-8")
    assert out.splitlines(keepends=True) == [
        lines[0].replace("<cuda.h>", "<musa.h>").replace("CUDA_SUCCESS", "MUSA_SUCCESS"),
        "\n",
        lines[2].replace("import torch", "import torch, torch_musa").replace("'cuda'", "'musa'"),
        lines[3],
    ]
    musacoder("port", tmp_path / "out.jsonl", "--to", "cuda", "-o", tmp_path / "back.jsonl", "--quiet")
    assert (tmp_path / "back.jsonl").read_text(encoding="utf-8") == "".join(lines)


@pytest.mark.parametrize(("row", "message"), [("[1]", "rows.jsonl:1: the row is no JSON object"), ('{"answer": "x"}', "none of the fields candidate"), ('{"candidate": 3}', "none of the fields"), ("{", "no JSON object")])
def test_rows_that_are_none(tmp_path, row, message):
    (tmp_path / "rows.jsonl").write_text(row + "\n")
    assert message in musacoder("port", tmp_path / "rows.jsonl", "-o", tmp_path / "out", code=2).stderr
    assert not (tmp_path / "out").exists()


def test_usage(folder, tmp_path):
    assert "does not exist" in musacoder("port", tmp_path / "nope", code=2).stderr
    assert "give -o FOLDER" in musacoder("port", folder, code=2).stderr
    assert "exclude each other" in musacoder("port", folder, "--diff", "--dry-run", code=2).stderr
    assert "give files and folders, or --kernelbench" in musacoder("port", code=2).stderr
    musacoder("port", folder, "--to", "rocm", "--dry-run", code=2)
    (tmp_path / "zero.cu").write_bytes(b"x" * 9000 + b"\0")
    assert "is zero" in musacoder("port", tmp_path / "zero.cu", code=2).stderr
    musacoder("port", folder / "k.cu", "--strict", "--dry-run", code=1)
    musacoder("port", folder / "sub" / "h.cuh", "--strict", "--dry-run")
    assert "no such tables" not in musacoder("port", folder / "k.cu", "--tables", tmp_path, code=2).stderr
    assert "Examples:" in musacoder("port", "--help").stdout
    assert "port" in musacoder("completion", "bash").stdout


@pytest.mark.skipif(not (DATA / "real_candidates.jsonl").exists(), reason="no real candidates; set MUSACODER_DATA")
@pytest.mark.parametrize("name", ["real_candidates", "cuda_l1"])
def test_files_of_real_candidates_come_back(tmp_path, name):
    musacoder("port", DATA / f"{name}.jsonl", "-o", tmp_path / "musa.jsonl", "--quiet")
    musacoder("port", tmp_path / "musa.jsonl", "--to", "cuda", "-o", tmp_path / "cuda.jsonl", "--quiet")
    assert (tmp_path / "musa.jsonl").read_bytes() != (DATA / f"{name}.jsonl").read_bytes()
    assert (tmp_path / "cuda.jsonl").read_bytes() == (DATA / f"{name}.jsonl").read_bytes()


@pytest.mark.skipif(not (DATA / "kernelbench.jsonl").exists(), reason="no KernelBench tasks; set MUSACODER_DATA")
def test_musa_kernelbench_has_every_task_and_is_stable(tmp_path):
    musacoder("port", "--kernelbench", DATA / "kernelbench.jsonl", "-o", tmp_path / "one", "--no-verify", "--quiet")
    manifest = json.loads(musacoder("port", "--kernelbench", DATA / "kernelbench.jsonl", "-o", tmp_path / "two", "--no-verify", "--json").stdout)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    assert manifest["tasks_by_level"] == {"1": 100, "2": 100, "3": 50}
    source = {(row["level"], row["id"]): row for row in map(json.loads, (DATA / "kernelbench.jsonl").read_text().splitlines())}
    rows = [json.loads(line) for line in (tmp_path / "one" / "tasks.jsonl").read_text().splitlines()]
    assert len(rows) == 250
    for row in rows:
        assert row["name"] == source[row["level"], row["id"]]["name"]
        assert "cuda" not in row["code"].lower()
    listed = musacoder("tasks", "list", "--tasks", tmp_path / "one" / "tasks.jsonl", "--json").stdout.splitlines()
    assert len(listed) == 250
    assert len(list((tmp_path / "one" / "level1").glob("*.py"))) == 100


def test_edition_of_our_own_tasks(tmp_path):
    musacoder("port", "--kernelbench", ROOT / "tasks", "-o", tmp_path / "ours", "--no-verify", "--one-shot", "none", "--quiet")
    manifest = json.loads((tmp_path / "ours" / "manifest.json").read_text())
    assert len(manifest["tasks"]) == len(list((ROOT / "tasks").rglob("*.py")))
    assert manifest["one_shot"] is None
    assert (tmp_path / "ours" / "activation" / "1_relu.py").exists()
    assert "exists" in musacoder("port", "--kernelbench", ROOT / "tasks", "-o", tmp_path / "ours", code=2).stderr


@pytest.mark.skipif(not os.path.exists(find_nvcc()), reason="no nvcc, so nothing can be built")
def test_exemplars_verify_in_musa(tmp_path):
    musacoder("port", "--kernelbench", ROOT / "tasks" / "activation" / "1_relu.py", "-o", tmp_path / "one", "--quiet")
    exemplars = json.loads((tmp_path / "one" / "manifest.json").read_text())["exemplars"]
    assert [(e["name"], e["status"]) for e in exemplars] == [("add", "ok"), ("linear_relu", "ok"), ("row_softmax", "ok")]


@pytest.mark.skipif(not os.path.exists(find_nvcc()), reason="no nvcc, so nothing can be built")
def test_exemplars_verify_in_cuda(tmp_path):
    folders = sorted((ROOT / "runtime" / "prompts" / "exemplars").iterdir())
    rows = [{"reference": (f / "task.py").read_text(), "candidate": (f / "answer.py").read_text(), "name": f.name} for f in folders]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    musacoder("verify", "--batch", tmp_path / "rows.jsonl", "--out", tmp_path / "out.jsonl", "--backend", "vgpu", "--quiet")
    verdicts = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert sorted((v["name"], v["status"], v["dialect"]) for v in verdicts) == [(name, "ok", "cuda") for name in ("add", "linear_relu", "row_softmax")]


def test_prompt(tmp_path):
    task = ROOT / "tasks" / "activation" / "1_relu.py"
    text = musacoder("prompt", task, "--backend", "musa").stdout
    assert "musa_sources" in text and "return torch.relu(x)" in text and "exemplar_add" in text
    row = json.loads(musacoder("prompt", "activation/1_relu", "--tasks", ROOT / "tasks", "--json", "--one-shot", "none").stdout)
    assert row["task"] == "activation/1_relu" and "cuda_sources" in row["prompt"] and "exemplar" not in row["prompt"]
    assert "no exemplar is called 'x'" in musacoder("prompt", task, "--one-shot", "x", code=2).stderr
    assert "give --tasks" in musacoder("prompt", ROOT / "tasks", code=2).stderr
    assert "has no task" in musacoder("prompt", "nope", "--tasks", ROOT / "tasks", code=2).stderr


def test_lists_of_names_are_made_from_headers_and_only_grow(tmp_path):
    include = tmp_path / "include"
    include.mkdir()
    (include / "cuda_runtime_api.h").write_text('/* cudaInAComment */ cudaError_t cudaMalloc(void**); // cudaToo\n#define S "cudaString"\nvoid cudaBrandNew(); int user;\n')
    done = subprocess.run([ROOT / "scripts" / "rename_names", "--check", include], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr   # cudaBrandNew
    [line] = [line for line in done.stdout.splitlines() if line.startswith("runtime ")]
    assert line.endswith("names, 1 new")
    (include / "cuda_runtime_api.h").write_text("cudaError_t cudaMalloc(void**);\n")
    assert subprocess.run([ROOT / "scripts" / "rename_names", "--check", include], capture_output=True, check=False).returncode == 0
    missing = subprocess.run([ROOT / "scripts" / "rename_names", "--check", tmp_path / "nope"], capture_output=True, text=True, check=False)
    assert missing.returncode == 1 and "is no folder" in missing.stderr


def test_coverage_of_a_public_list(tmp_path):
    names = {"cudaMalloc": "musaMalloc", "cublasCreate": "mublasCreate", "cudaFree": "musaLiberate", "notOurs": "x", "cuda_runtime.h": "musa_runtime.h", "#if 0": "y"}
    (tmp_path / "list.json").write_text(json.dumps(names))
    done = subprocess.run([ROOT / "bench" / "port" / "coverage.py", "--list", tmp_path / "list.json"], capture_output=True, text=True, check=True)
    assert [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("all ")] == [["5", "3", "1", "1", "60.00", "5"]]
    assert "other    cudaFree → musaFree, there musaLiberate" in done.stdout
    assert "unknown  notOurs → notOurs, there x" in done.stdout
