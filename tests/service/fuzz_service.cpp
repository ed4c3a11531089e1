// The parsers that see bytes of clients before anything else does. The first byte chooses one:
//   p target and query   j a body as job   r trainer label   t token file   o worker's outcome   s a queue
//   record   u URL   b an artefact's bundle
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "build/artifact_store.h"
#include "net/http_client.h"
#include "service/nats_link.h"
#include "service/queue.h"
#include "service/requests.h"
#include "service/router.h"
#include "service/server.h"
#include "service/tokens.h"

namespace {

using namespace musacoder::service;

struct Fixture {
  Fixture() : queue(make_memory_queue({})), service({}, *queue, nullptr), router(service) {}
  std::unique_ptr<JobQueue> queue;
  Service service;
  Router router;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static Fixture fixture;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0]) {
    case 'p': {
      if (auto request = parse_target(text)) {
        // What is let through never climbs.
        if (request->path.find("/../") != std::string::npos || request->path.find('\0') != std::string::npos)
          __builtin_trap();
        (void)query_number(*request, "wait", 0, 0, 300);
        (void)query_count(*request, "limit", 1, 1, 1000);
      }
      break;
    }
    case 'j': {
      if (auto body = parse_text(text))
        if (auto jobs = parse_jobs(*body, {}))
          for (const auto& spec : jobs->specs) {
            auto back = spec_from_text(spec_to_text(spec));
            if (!back || content_hash(*back) != content_hash(spec)) __builtin_trap();
          }
      break;
    }
    case 'r': {
      for (const char* path :
           {"/rm", "/get_reward", "/verify", "/run_code", "/evaluate", "/evaluate/batch", "/workflow/submit",
            "/reset", "/step", "/v1/complete", "/v1/lease", "/v1/heartbeat", "/v1/release"}) {
        auto request = parse_target(path);
        request->method = "POST";
        request->host = "localhost";
        request->body = text;
        (void)fixture.router.handle(*request);
      }
      std::string episode;
      (void)fixture.router.open_env_message(text, {}, episode);
      break;
    }
    case 't':
      (void)TokenSet::parse(text, "fuzz");
      break;
    case 'o':
      (void)outcome_from_text(text);
      break;
    case 's':
      (void)spec_from_text(text);
      break;
    case 'u':
      (void)musacoder::net::parse_url(text);
      if (auto nats = parse_nats_url(text); nats && nats->shown.find('@') != std::string::npos)
        __builtin_trap();
      (void)parse_endpoint(text);
      (void)worker_is_gone(text);
      break;
    case 'b': {
      const std::string key(64, 'a');
      // As it stands, and with its hash made right, so that the manifest is reached.
      (void)musacoder::build::check_bundle(key, text);
      const auto line = text.find('\n');
      (void)musacoder::build::check_bundle(
          key, musacoder::build::pack_bundle(
                   {text.substr(0, line), line == std::string::npos ? "" : text.substr(line + 1)}));
      break;
    }
    default:
      break;
  }
  return 0;
}
