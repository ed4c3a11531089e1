// Python's ast in a separate, persistent process.
//
//   AstWorker worker({.python = python, .script = runtime_dir + "/python/ast_facts.py",
//                     .launcher = sandbox::launcher_path(runtime_dir)});
//   Result<Facts> facts = worker.read(source);      // a syntax error is a result: facts->parsed == false
//
// The process parses and never runs the source, and since a parser may have faults it does so in the sandbox: it sees Python
// and its own script, can write nowhere, and has no network. If a source kills it or exceeds the deadline, that source is reported as
// not parsable and the next one meets a fresh process. Thread safe: calls queue up.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "candidate/facts.h"

namespace musacoder::candidate {

struct AstWorkerOptions {
  std::string python;
  std::string script;
  std::string launcher;     // the sandbox's (sandbox/launcher.h)
  double timeout_s = 20;    // one source
};

class AstWorker {
 public:
  explicit AstWorker(AstWorkerOptions options);
  ~AstWorker();
  // `source` must be UTF-8. Errors: kUnavailable, kNotFound when the process cannot be started at all.
  Result<Facts> read(const std::string& source);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace musacoder::candidate
