// Runs a program in a sandbox through the launcher program `musacoder-sandbox`.
//
//   Policy policy;
//   policy.readable = {toolkit};  policy.writable = {scratch};  policy.wall_s = 60;
//   auto outcome = run_sandboxed(launcher, policy, {.argv = {"/usr/bin/g++", "-c", "main.cpp"}, .cwd = scratch});
//   if (outcome && outcome->process.exit.ok()) …
//
// Program:  musacoder-sandbox --policy JSON [--result-fd N] -- PROGRAM ARG…
//           musacoder-sandbox --probe          prints what this machine offers, as JSON
// Its exit status or signal is the program's own; 125 with a message on stderr when the sandbox could not be made,
// 126/127 when the program could not be executed.
// Result line (JSON): code, signal, timed_out, oom, limit ("", wall, memory, processes, writable, cpu, file), error,
// max_rss_bytes, cpu_s, wall_s, features, skipped.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "base/subprocess.h"
#include "sandbox/policy.h"

namespace musacoder::sandbox {

struct Outcome {
  base::SubprocessResult process;   // exit as the program itself ended; timed_out for the policy's wall limit
  std::string limit;                // which limit ended it, "" for none
  bool oom = false;
  std::vector<std::string> features;
};

// Path of the launcher in a runtime folder: <runtime>/bin/musacoder-sandbox.
std::string launcher_path(const std::string& runtime_dir);

// `options.timeout_s` is set from policy.wall_s with some grace; options.cwd is the folder inside the sandbox.
// An error means that the sandbox or the program could not be started.
Result<Outcome> run_sandboxed(const std::string& launcher, Policy policy, base::SubprocessOptions options);

}  // namespace musacoder::sandbox
