#include "judge/statuses.h"

#include <fmt/format.h>

#include <array>

#include "judge/verdict.h"

namespace musacoder::judge {
namespace {

constexpr auto kTable = std::to_array<StatusInfo>({
    {"ok", "Verified", "Builds, runs without a fault, agrees with the reference on every trial, and computes the result with its own kernels.",
     "Make it faster; results and parameters must stay as they are."},

    {"compile_error:extract", "No code found", "The answer holds no code that could be a candidate.",
     "Answer with one fenced Python block that defines ModelNew."},
    {"compile_error:interface", "ModelNew is missing or wrong", "There is no usable ModelNew: it is missing, is defined twice, is not an nn.Module, or its constructor or forward has another signature.",
     "Define exactly one class ModelNew(nn.Module) with the constructor and forward arguments of Model."},
    {"compile_error:syntax", "Syntax error", "Python or the CUDA front end could not parse the source.",
     "The line named in the diagnostics: unbalanced brackets or quotes, cut-off code, stray fences."},
    {"compile_error:nvcc", "CUDA compile error", "nvcc refused the CUDA source.",
     "The first error; later ones often follow from it."},
    {"compile_error:link", "Link error", "The objects compiled but do not link: an undefined or doubly defined symbol.",
     "Every function named in `functions` and in cpp_sources needs a definition in cuda_sources with the same signature."},
    {"compile_error:missing_header", "Missing header", "An included header does not exist.",
     "Include only CUDA, C++ and torch headers."},
    {"compile_error:timeout", "Compile time limit", "The compiler did not finish in time.",
     "Fewer template instantiations, less unrolling, less code in one kernel."},

    {"runtime_error:illegal_access", "Illegal memory access", "A kernel touched memory outside every live tensor, or a tensor that was freed.",
     "The index computation and the bounds check of the named access, for sizes that are no multiple of the block."},
    {"runtime_error:misaligned", "Misaligned access", "A kernel made an access at an address that is no multiple of its size.",
     "Vector casts such as float4*: address and row length must be multiples of the vector's size."},
    {"runtime_error:launch_failure", "Launch failure", "A launch was refused or a kernel trapped: block too large, too much shared memory, an empty grid, bad arguments.",
     "Grid, block and shared-memory sizes of the named launch; opt in above 48 KiB of shared memory."},
    {"runtime_error:device_assert", "Device assertion", "An assert() in a kernel failed.", "The asserted condition for the named thread."},
    {"runtime_error:oom", "Out of memory", "The candidate asked for more device or host memory than there is.",
     "Sizes of temporaries; allocate what is needed once and reuse it."},
    {"runtime_error:timeout", "Time limit", "A kernel, a call of forward or the whole candidate did not finish in time.",
     "Loops without end, spinning on other blocks, algorithms far slower than the reference."},
    {"runtime_error:race", "Data race", "Two threads touched the same memory without order, and at least one wrote.",
     "Put __syncthreads() between writing and reading shared memory; use atomics for shared results."},
    {"runtime_error:barrier", "Barrier error", "Threads of a block did not all reach the same barrier.",
     "No __syncthreads() in divergent branches or after an early return."},
    {"runtime_error:exception", "Python or C++ exception", "The candidate's host code raised an exception.",
     "The last lines of the traceback."},
    {"runtime_error:exit", "Process ended itself", "The candidate's process ended without delivering a result.",
     "No os._exit, sys.exit, exit() or abort() in candidate code."},
    {"runtime_error:signal", "Process crashed", "The candidate's process was ended by a signal, such as a segmentation fault in host code.",
     "Host code must not dereference device pointers; check null pointers, recursion and memory limits."},

    {"correctness_error:arity", "Wrong number of outputs", "The structure of the outputs differs from the reference's.",
     "Return what Model.forward returns: same tuple, list or dict, same number of tensors."},
    {"correctness_error:shape", "Wrong output shape", "An output has another shape than the reference's.",
     "How the output size is computed; keepdim, squeezed and broadcast dimensions."},
    {"correctness_error:dtype", "Wrong output dtype", "An output has another dtype than the reference's.",
     "The dtype given to empty/zeros; convert at the end if you accumulate in another type."},
    {"correctness_error:device", "Output on the wrong device", "An output is not on the device of the inputs.",
     "Allocate outputs with x.options() or device=x.device."},
    {"correctness_error:values", "Wrong values", "Shapes and dtypes agree, values do not.",
     "The worst element: its position (edge, first or last block), and the ratio of expected to got."},
    {"correctness_error:nondeterministic", "Nondeterministic result", "The same inputs gave different results from call to call or under another block order.",
     "Uninitialised memory, missing synchronisation, results that depend on the order of blocks."},
    {"correctness_error:parameters", "Parameters differ", "ModelNew has not the parameters and buffers of Model, so the reference's weights cannot be given to it.",
     "Create the same parameters and buffers, with the same names and shapes, in the same order."},
    {"correctness_error:input", "Input was changed", "An input tensor was changed although the reference leaves it alone.",
     "Write results to new tensors."},

    {"cheating:disallowed_aten", "Torch operator instead of a kernel", "A torch operator that computes was called where the candidate's own kernels must do the work.",
     "Move the named operators into your kernels; creation, copies, casts and views are allowed."},
    {"cheating:vendor_library", "Vendor library call", "A library such as cuBLAS or cuDNN did the work.",
     "Write the kernel yourself."},
    {"cheating:no_kernel", "No kernel ran", "The outputs were not written by a kernel of the candidate in the call.",
     "forward must launch your kernels on every call; no try/except fall-back to torch."},
    {"cheating:replay", "Replayed result", "An earlier result was returned instead of computing anew.",
     "Compute from the given inputs on every call; cache no outputs."},
    {"cheating:input_mutation", "Inputs rewritten", "The candidate changed the inputs in a way that the reference does not.",
     "Write results to new tensors."},
    {"cheating:outside_window", "Work outside the call", "The device worked beside the call that is judged: on its inputs before it began, or after it had returned, such as in another thread.",
     "All work inside forward, on the current stream."},
    {"cheating:tampering", "Tampering", "The candidate tried to alter or deceive the process that judges it.",
     "Leave the surroundings alone; only forward's return value counts."},
    {"cheating:implausible_time", "Implausible time", "The measured time is below what the work can take on this device.",
     "Do all of the work, on the current stream, before forward returns."},
    {"cheating:precision", "Reduced precision", "The work was done in a lower precision than the task allows.",
     "Compute and accumulate in the task's dtype or better."},

    {"unsupported:ptx:*", "PTX instruction not supported", "The virtual GPU lacks an instruction that the candidate uses; this says nothing about the candidate.",
     "Verify on a GPU, or avoid the named instruction."},
    {"unsupported:cuda:*", "CUDA function not supported", "The virtual GPU lacks a CUDA runtime function that the candidate uses; this says nothing about the candidate.",
     "Verify on a GPU, or avoid the named function."},
    {"unsupported:driver_api", "CUDA driver API not supported", "The candidate calls the CUDA driver API, which the virtual GPU does not present; this says nothing about the candidate.",
     "Use the CUDA runtime API, or verify on a GPU."},
    {"unsupported:vendor_symbol", "Vendor library symbol not supported", "The candidate links a function of a vendor library that is not presented here; this says nothing about the candidate.",
     "Avoid the named function, or verify on a GPU."},
    {"unsupported:headers", "Headers not supported", "The build needs headers that are not available here; this says nothing about the candidate.",
     "Install the named headers, or verify where they are."},
    {"unsupported:dsl:*", "Kernel language not supported", "The candidate is written in a kernel language that this verifier does not run (such as triton).",
     "Write CUDA C++ through load_inline."},
    {"unsupported:dialect", "Other vendor's GPU", "The candidate is written in CUDA and the GPU is one for MUSA, or the other way round; this says nothing about the candidate.",
     "Judge it on the virtual GPU (--backend vgpu), which runs both."},
    {"unsupported:warp128", "Warps of 128 threads", "The candidate is made for warps of 128 threads, which the virtual GPU does not execute.",
     "Verify on the real device, or make the kernel independent of the warp size."},
    {"unsupported:*", "Not supported", "The backend lacks something that the candidate needs; this says nothing about the candidate.",
     "The cause names what is missing."},

    {"inconclusive:shape_specialised", "Made for other sizes", "The candidate hard-codes the task's real sizes, and the virtual GPU ran smaller ones.",
     "Verify with --full-size or on a GPU; or take the sizes from the tensors."},
    {"inconclusive:budget", "Too much work", "The virtual GPU's budget ended before the candidate did, without a sign that it hangs.",
     "Verify with smaller sizes (--set) or on a GPU."},
    {"inconclusive:random", "Random task", "The task draws random numbers in forward, the candidate draws others, and so their values cannot be compared.",
     "Nothing in the candidate; a task whose forward draws nothing (dropout in eval mode or with p = 0) can be decided."},
    {"inconclusive:*", "Inconclusive", "The candidate could not be decided here.", "The cause names why."},

    {"invalid_task:trivial", "Task is trivial", "A trivial candidate, such as zeros or the mean, passes on this task.",
     "Change the task so that its output depends on all of its inputs."},
    {"invalid_task:nondeterministic", "Task is nondeterministic", "The reference gives different results for the same inputs and seed.",
     "Seed or remove the randomness in the task."},
    {"invalid_task:nonfinite", "Task's results are not finite", "The reference's outputs are all NaN or infinite.", "Change the inputs of the task."},
    {"invalid_task:exception", "Task raises", "The task's own code raised an exception.", "Run the task file alone; the cause has the exception."},
    {"invalid_task:crash", "Task crashes", "The process that runs the reference ended while running this task.", "Run the task file alone; smaller sizes may help."},
    {"invalid_task:ill_conditioned", "Task is ill-conditioned", "The reference's own rounding error is so large that right and wrong candidates cannot be told apart.",
     "Change the inputs or the operation so that results are well determined."},
    {"invalid_task:syntax", "Task is not Python", "The task file could not be parsed or is too large.", "The line named in the cause."},
    {"invalid_task:interface", "Task is incomplete", "The task lacks Model, get_inputs or get_init_inputs, or they do not fit each other.",
     "Bring the file into KernelBench's form."},
    {"invalid_task:missing", "No such task", "The row or command names no task that could be found.", "The task's path or id, and --tasks."},
    {"invalid_task:missing_module", "Task needs a Python module", "The task imports a Python module that is not installed.",
     "Install the named module into the project's Python."},
    {"invalid_task:set", "Constant cannot be set", "A constant given by --set does not exist in the task or has an impossible value.",
     "The names listed in the cause."},
    {"invalid_task:memory", "Task is too large", "The reference needs more memory than its budget even at the smallest valid size.",
     "Smaller sizes in the task, or --set."},
    {"invalid_task:timeout", "Task is too slow", "The reference did not finish in time.", "Smaller sizes in the task, or --set."},
    {"invalid_task:unavailable", "Task needs a download", "The task needs files from the network, which the sandbox does not give.",
     "Make the task self-contained."},
    {"invalid_task:unsupported", "Task is not supported", "The task uses tensors of a kind that is not supported, such as sparse ones.",
     "Dense tensors of a supported dtype."},
    {"invalid_task:*", "Task is at fault", "The task cannot be judged.", "The cause names why."},

    {"infra:unfinished", "Not finished", "Judging ended before there was a verdict.", "Run it again."},
    {"infra:build", "Build could not start", "The compiler could not be started or its sandbox failed.", "`musacoder doctor`; then run it again."},
    {"infra:device", "GPU not reachable", "The GPU or the connection to it failed.", "`musacoder doctor`; then run it again."},
    {"infra:device_memory", "GPU memory taken", "The reference's own tensors did not fit into the GPU's memory.", "Free the GPU of other processes; then run it again."},
    {"infra:ledger", "Ledger incomplete", "What ran on the GPU could not be recorded, so that legality cannot be decided.", "Run it again; `musacoder doctor`."},
    {"infra:disk", "Disk full", "There was no room for files.", "Free disk space in the cache and temporary folders; then run it again."},
    {"infra:reference_runner", "Reference runner failed", "The process that computes the expected outputs failed.", "Run it again; `musacoder doctor`."},
    {"infra:installation", "Installation changed", "torch, numpy or another Python package was removed or replaced while this process ran, and the candidate's import failed.",
     "Repair the Python environment (scripts/setup), then start the process again."},
    {"infra:cancelled", "Cancelled", "The job was cancelled before there was a verdict.", "Submit it again if the verdict is wanted."},
    {"infra:deadline", "Deadline passed", "The job's deadline passed before there was a verdict.", "Submit it with a later deadline, or add lanes."},
    {"infra:poison", "Workers died", "Every worker that took this job died under it.", "Look at the workers' logs; `musacoder doctor` on their machines."},
    {"infra:*", "Infrastructure failure", "The machine or the verifier failed; this is no verdict about the candidate.",
     "Run it again; `musacoder doctor` checks this machine."},
});

constexpr StatusInfo kUnknown{"*", "Unknown status", "This version of the program does not know the status.", "Use the version that wrote the verdict."};

bool fits(std::string_view pattern, std::string_view status) {
  if (!pattern.empty() && pattern.back() == '*') {
    pattern.remove_suffix(1);
    return status.size() > pattern.size() && status.substr(0, pattern.size()) == pattern;
  }
  return pattern == status;
}

}  // namespace

std::span<const StatusInfo> status_table() { return kTable; }

const StatusInfo& status_info(std::string_view status) {
  const StatusInfo* best = nullptr;
  for (const auto& row : kTable)
    if (row.status == status) return row;
    else if (fits(row.status, status) && (!best || row.status.size() > best->status.size())) best = &row;
  return best ? *best : kUnknown;
}

bool is_known_status(std::string_view status) { return &status_info(status) != &kUnknown; }

std::string reward_rule(std::string_view status) {
  const std::string text(status);
  if (status == "ok") return "1 + speed term";
  if (is_null_reward(text)) return "null";
  if (status_class(text) == "correctness_error") return "−0.5 + 0.5 q; −1 when q = 0";
  return is_candidate_fault(text) ? "−1" : "null";
}

std::string status_table_markdown() {
  std::string out = "| status | meaning | reward | exit code | what to look at |\n|---|---|---|---|---|\n";
  for (const auto& row : kTable)
    out += fmt::format("| `{}` | {} | {} | {} | {} |\n", row.status, row.meaning, reward_rule(row.status),
                       exit_code(std::string(row.status)), row.look_at);
  return out;
}

}  // namespace musacoder::judge
