// The judge's side of the candidate zygote and the candidate runner (docs/protocols.md §3).
//
//   MC_ASSIGN_OR_RETURN(auto zygote, ZygoteClient::start({.runtime_dir = rt, .python = python}));
//   MC_ASSIGN_OR_RETURN(auto runner, zygote->spawn({.writable = folder, .readable = {cache}}, session->take_client_fd()));
//   RunnerReply reply = runner->load({.code = code}, build, Deadline::in(60));
//   if (reply.kind == ReplyKind::kException) show(reply.exception.type, reply.exception.line);
//   reply = runner->construct(init_args, init_kwargs, seed, build, deadline);
//   reply = runner->parameters(state, deadline);                  // reply.parameters
//   reply = runner->prepare(deadline);                            // outside a device window
//   reply = runner->forward(trial, seed, inputs, build, deadline);  // reply.outputs
//   RunnerExit exit = runner->stop();
//
// The runner is not trusted: every line is bounded and checked, an answer that the protocol does not allow here ends the
// candidate (kMalformed), and so does a line that came unasked. Each request carries a fresh random token that its events
// must repeat, so that prepared answers do not count. A deadline leaves out the time spent in the build callback, and the time in
// which the candidate (or the device server that works for it) was ready to run and had no core, up to three times its length.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "build/build.h"

namespace musacoder::judge {

enum class ReplyKind {
  kDone,        // the event that the request asks for
  kException,   // the candidate's code raised; the runner goes on
  kEnded,       // the process is gone (os._exit, signal, limit): stop() says how
  kTimedOut,    // no answer in time; the runner must be stopped
  kMalformed,   // not the protocol; the runner must be stopped
};

struct RunnerException {
  std::string stage;      // load, construct, parameters, forward
  std::string type;       // "RuntimeError"; "InterfaceError" when ModelNew is missing or no module
  std::string message, traceback;
  int line = 0;           // of the candidate's file, 0 unknown
  bool device_fault = false;
};

struct StateEntry {
  std::string name, kind, dtype;
  std::vector<std::int64_t> shape;
};

struct ParametersReply {
  struct ShapeMismatch {
    std::string name;
    std::vector<std::int64_t> expected, got;
  };
  std::vector<std::string> matched, missing, extra;
  std::vector<ShapeMismatch> shape_mismatch;
  std::vector<std::string> unmatched;  // the reference's tensors that have a partner neither by name nor by value
  // All names and shapes of the reference are there.
  bool complete() const { return missing.empty() && shape_mismatch.empty(); }
};

struct RunnerReply {
  ReplyKind kind = ReplyKind::kEnded;
  std::string detail;                                  // one sentence for kEnded, kTimedOut, kMalformed
  bool tampering = false;                              // kMalformed in a form that cannot be an accident
  RunnerException exception;                           // kException
  std::vector<StateEntry> state;                       // construct
  bool training = false;                               // construct
  ParametersReply parameters;                          // parameters
  std::shared_ptr<const nlohmann::json> outputs;       // forward: a tree of claims, for fetch_outputs()
  std::vector<std::string> refused, cpu_ops;           // since the last event
  std::vector<std::string> languages;                  // kernel languages asked for that are not here: "triton"
  double build_seconds = 0;                            // spent in the build callback
  double outer_ms = 0;                                 // all of the request but that, by the judge's own clock
  // timed
  std::vector<double> ms;                              // of each call, as the candidate's process says
  double first_ms = 0;
  int warm_calls = 0;
};

using BuildCallback = std::function<build::BuildResult(const build::Extension&)>;

struct LoadRequest {
  std::string code;                 // Python source; not used with bare_cuda
  std::string filename = "candidate.py";
  std::optional<std::string> bare_cuda;
};

// How a candidate's process ended.
struct RunnerExit {
  bool known = false;               // false: the zygote could not say
  int code = -1;                    // exit status, -1 when ended by a signal
  int signal = 0;
  std::string limit;                // "memory", "cpu", "processes", "file", "writable", "wall": the limit that ended it
  std::uint64_t max_rss_bytes = 0;
  std::string output;               // head and tail of what it printed, at most 64 KiB
  std::string describe() const;     // "signal 11 (Segmentation fault)", "exit status 0", "killed by the memory limit"
};

class ZygoteClient;

class RunnerClient {
 public:
  ~RunnerClient();                  // stops the process

  // On real hardware, before anything of the candidate: starts the ledger and makes the GPU context. Anything but kDone is the
  // machine's fault.
  RunnerReply start(const base::Deadline& deadline);
  RunnerReply load(const LoadRequest& request, const BuildCallback& build, const base::Deadline& deadline);
  // init_args and init_kwargs: trees as the reference runner gives them. `dtype`: what the module's float32 state is converted to
  // afterwards ("float16"), "" for nothing.
  RunnerReply construct(const nlohmann::json& init_args, const nlohmann::json& init_kwargs, std::uint64_t seed,
                        const BuildCallback& build, const base::Deadline& deadline, const std::string& dtype = "");
  // state: the reference runner's list, with file places that the candidate may read.
  RunnerReply parameters(const nlohmann::json& state, const base::Deadline& deadline);
  // Restores the module's state and lets the last outputs go; forward() does it itself when prepare() was not called.
  RunnerReply prepare(const base::Deadline& deadline);
  // `extra`: further keys of the request, an object ("arena" and "slots" on real hardware).
  RunnerReply forward(int trial, std::uint64_t seed, const nlohmann::json& inputs, const BuildCallback& build,
                      const base::Deadline& deadline, const nlohmann::json* extra = nullptr);
  // Timed calls (docs/protocols.md §3): `request` holds arena, place, sets, slots, flush_bytes, warm_s, seed.
  // reply.ms and, in reply.outputs, a list of claims, one a call.
  RunnerReply timed(const nlohmann::json& request, const base::Deadline& deadline);

  // Kills what is left of the candidate, with all its processes, and says how it ended. Waits at most ten seconds.
  RunnerExit stop();
  // As stop(), but leaves a process that is ending by itself `grace_s` to do so: its own exit status is then seen.
  RunnerExit wait_then_stop(double grace_s);

  // Asks the process to end, leaves it `grace_s` for that, then stop().
  RunnerExit end(double grace_s);

  pid_t pid() const;
  double starved_seconds() const;                    // granted so far because no core was free
  const std::vector<std::string>& sandbox() const;   // features in force

 private:
  friend class ZygoteClient;
  struct Impl;
  std::unique_ptr<Impl> impl_;
  explicit RunnerClient(std::unique_ptr<Impl> impl);
};

struct ZygoteOptions {
  std::string runtime_dir = {};     // holds python/, lib/
  std::string python = {};
  double start_timeout_s = 120;     // importing torch from a cold disk
  std::string dialect = "cuda";     // of the candidates' names: cuda or musa
  // For tests.
  bool sandbox = true;
  std::string torch_device = {};    // module name; empty: torch_device; "torch_cuda" on real hardware
  std::string extra_path = {};      // folder to import it from
  std::vector<std::string> environment = {};   // NAME=VALUE, besides PATH, HOME and the like
};

struct SpawnOptions {
  std::string writable = {};        // existing folder: working folder, home and temporary folder of the candidate
  std::vector<std::string> readable = {};  // artefact cache, parameter files; missing folders are made
  std::string policy = "strict";    // or "report"
  std::string gpu = "h200";
  double cpu_s = 300;
  double wall_s = 1800;             // upper bound that holds even when judge and zygote are gone
  std::uint64_t memory_bytes = 4ull << 30;
  int processes = 64;
  std::uint64_t file_bytes = 1ull << 30;
  std::vector<std::string> devices = {};   // device nodes that it may open
  bool bound_addresses = true;             // memory_bytes bounds address space too (a GPU's runtime reserves far more)
  std::map<std::string, std::string> environment = {};
  pid_t device_server = -1;                // a process of ours that executes its kernels
  std::vector<std::string> under = {};     // command line of a tool that the candidate's process runs below; empty: none
};

// Thread safe: several lanes may share one zygote. A zygote that died is started anew by the next spawn().
class ZygoteClient {
 public:
  static Result<std::unique_ptr<ZygoteClient>> start(const ZygoteOptions& options);
  ~ZygoteClient();                  // runners must be gone

  // Forks one candidate. device_fd: the device's client descriptor; it is duplicated, the caller closes its own.
  // Errors are the machine's fault: infra.
  Result<std::unique_ptr<RunnerClient>> spawn(const SpawnOptions& options, int device_fd);

  std::string python_version() const;
  std::string torch_version() const;

 private:
  friend class RunnerClient;
  struct Impl;
  std::shared_ptr<Impl> impl_;
  explicit ZygoteClient(std::shared_ptr<Impl> impl);
};

}  // namespace musacoder::judge
