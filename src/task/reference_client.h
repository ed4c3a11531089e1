// The judge's end of the reference runner (docs/protocols.md §2).
//
//   MC_ASSIGN_OR_RETURN(auto client, ReferenceClient::start({.runtime_dir = rt, .python = python, .run_dir = dir}));
//   MC_ASSIGN_OR_RETURN(auto reply, client->request({{"op", "open"}, {"task", id}, {"code", code}}, 60));
//   if (!reply.value("ok", false)) show(reply["status"], reply["message"]);      // "invalid_task:missing_module"
//
// A request has a deadline. Python code that overstays is stopped inside the runner; a runner that does not answer is
// killed with its process group, and the next request starts a new one, to which earlier handles mean nothing.
// One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/status.h"

namespace musacoder::task {

struct ReferenceOptions {
  std::string runtime_dir;                    // holds python/reference_runner.py
  std::string python;                         // a Python with torch
  std::string run_dir;                        // for tensor files; must exist
  int threads = 1;                            // torch threads
  bool device = false;                        // may use the GPU; else it is hidden from the runner
  std::string vendor = "cuda";                // of that GPU: cuda or musa
  std::uint64_t memory_bytes = 12ull << 30;   // private memory of the runner; 0: no limit
  double start_seconds = 90;                  // importing torch on a cold disk
};

class ReferenceClient {
 public:
  // Starts the runner; returns when it has answered `hello`.
  // Errors: kNotFound (no runner, no Python), kUnavailable with the runner's last words, kDeadlineExceeded.
  static Result<std::unique_ptr<ReferenceClient>> start(const ReferenceOptions& options);
  ~ReferenceClient();

  // One request, one reply (any object with "ok"). A task that ends the runner's process during `open` twice gets the reply
  // {"ok":false,"status":"invalid_task:crash"}.
  // Errors: kDeadlineExceeded (the runner was killed), kUnavailable (it died; its last words are in the message).
  Result<nlohmann::json> request(const nlohmann::json& request, double seconds);

  // Versions, from hello.
  const std::string& python_version() const;
  const std::string& torch_version() const;
  // How often a runner had to be started again.
  int restarts() const;

 private:
  struct Impl;
  explicit ReferenceClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace musacoder::task
