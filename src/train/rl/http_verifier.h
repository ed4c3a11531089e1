// The job API of `musacoder serve` (docs/service.md) as a Verifier.
//
//   HttpVerifier verifier([&] { return service.endpoint(); }, {.connections = 32, .timeout_s = 900});
//
// So many threads each take one job, submit it and wait for its end. Connections that break, 429 and 503 are
// waited for and tried again with the same idempotency key; a job that the service no longer knows (it was
// started anew, and its queue was in memory) is submitted again. A job that ended in infra:* is submitted
// anew, with another key, `retries` times. What the service refuses for good (400, 401, 422 …) is an outcome
// `infra:refused` with its message.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/status.h"
#include "train/rl/verifier.h"

namespace musacoder::train {

struct ServiceEndpoint {
  std::string url, token;
};
// Asked before each exchange, from any thread; an error (kUnavailable) is waited out.
using EndpointSource = std::function<Result<ServiceEndpoint>()>;

struct HttpVerifierOptions {
  int connections = 32;
  double timeout_s = 900;  // of one job, all tries together
  int retries = 3;
  std::uint64_t seed = 0;  // of the verifier's inputs; 0: it draws one
};

class HttpVerifier : public Verifier {
 public:
  HttpVerifier(EndpointSource endpoint, const HttpVerifierOptions& options);
  // Jobs that have not ended are given up, not cancelled.
  ~HttpVerifier() override;
  void submit(std::uint64_t ticket, VerifyRequest request) override;
  std::vector<std::pair<std::uint64_t, VerifyOutcome>> collect(double wait_s) override;

 private:
  struct Job {
    std::uint64_t ticket = 0;
    VerifyRequest request;
    base::Stopwatch watch;
  };
  void work();
  VerifyOutcome judge(const Job& job);
  Result<VerifyOutcome> once(const Job& job, const std::string& key, const base::Deadline& deadline);
  bool pause(double seconds);

  EndpointSource endpoint_;
  HttpVerifierOptions options_;
  std::mutex mutex_;
  std::condition_variable wake_, ended_;
  std::deque<Job> waiting_;
  std::vector<std::pair<std::uint64_t, VerifyOutcome>> done_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace musacoder::train
