// The store of artefacts that compile and execute workers share (build/artifact_store.h), by its address:
//
//   dir:PATH                          a folder that all of them mount
//   nats://HOST:PORT[/PREFIX]         in pieces in stream PREFIX_artifacts; what is older than 30 days goes
//   http://HOST:PORT, https://…       kept by the service (/v1/artifacts/KEY), with a token of role worker
//
//   MC_ASSIGN_OR_RETURN(auto store, open_artifact_store("nats://queue:4222", {}));
#pragma once

#include <memory>
#include <string>

#include "build/artifact_store.h"
#include "service/http_source.h"

namespace musacoder::service {

// `http.url` is not used. Errors: kInvalidArgument for another form, kUnavailable.
Result<std::shared_ptr<build::ArtifactStore>> open_artifact_store(const std::string& url,
                                                                  const HttpSourceConfig& http);

}  // namespace musacoder::service
