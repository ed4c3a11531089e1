// `musacoder serve` as a child of the training run: on loopback, with a token of its own and its queue in
// memory.
//
//   MC_ASSIGN_OR_RETURN(auto service, VerifierProcess::start({.lanes = 2, .args = {"--trials", "5"}}));
//   HttpVerifier verifier([&] { return service->endpoint(); }, {});
//
// A child that ends is started again, after 1, 2, 4 … 30 s; endpoint() is an error meanwhile. The child and
// all it started go with this object. Its log is appended to `log`. Thread safety: all functions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "train/rl/http_verifier.h"

namespace musacoder::train {

struct VerifierProcessOptions {
  std::string program;            // empty: `musacoder` beside this program
  std::vector<std::string> args;  // behind its own
  std::int64_t lanes = 0;         // 0: one a core
  std::string log;                // file; empty: this process's stderr
  std::string work_dir;           // for the file with the token; must exist
  double ready_s = 120;           // for its first line
};

class VerifierProcess {
 public:
  // Returns when it listens. Errors: kNotFound (no such program), kUnavailable (it ended, with its last
  // words; it was not ready in time).
  static Result<std::unique_ptr<VerifierProcess>> start(const VerifierProcessOptions& options);
  ~VerifierProcess();
  // Ends the child for good: whoever waits for its reply finds the connection closed, and endpoint() is an
  // error.
  void stop();
  Result<ServiceEndpoint> endpoint() const;
  // How often it was lost and started again.
  int restarts() const;
  int pid() const;

 private:
  struct Impl;
  explicit VerifierProcess(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace musacoder::train
