// A service's queue over HTTP, for workers on other machines (routes /v1/lease, /v1/heartbeat, /v1/complete,
// /v1/release), and its store of artefacts (/v1/artifacts/KEY).
//
//   MC_ASSIGN_OR_RETURN(auto source, make_http_source({.url = "https://verifier:8811", .token = token}));
//   WorkerPool pool(*source, factory, {.lanes = 1});
//
// Connections are kept and reused; one that broke is opened anew. Errors: kNotFound (the lease is lost),
// kInvalidArgument (URL, token, or the server refused the content), kUnavailable (no connection, or the
// server is busy: try again), kDeadlineExceeded. Thread safe.
#pragma once

#include <memory>
#include <string>

#include "build/artifact_store.h"
#include "service/queue.h"

namespace musacoder::service {

struct HttpSourceConfig {
  std::string url;        // http://HOST[:PORT] or https://HOST[:PORT]
  std::string token;      // "" none
  std::string ca_file;    // PEM; "": the system's
  double timeout_s = 30;  // one exchange, waits for work excluded
};

Result<std::unique_ptr<WorkSource>> make_http_source(const HttpSourceConfig& config);
Result<std::unique_ptr<build::ArtifactStore>> make_http_artifact_store(const HttpSourceConfig& config);

}  // namespace musacoder::service
