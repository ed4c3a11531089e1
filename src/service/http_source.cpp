#include "service/http_source.h"

#include <nlohmann/json.hpp>

#include "base/json_lines.h"
#include "net/http_client.h"
#include "service/requests.h"

namespace musacoder::service {
namespace {

using nlohmann::json;

// Connections to one service; any thread.
class Link {
 public:
  Status open(const HttpSourceConfig& config) {
    timeout_s_ = config.timeout_s;
    MC_ASSIGN_OR_RETURN(client_, net::HttpClient::make({.url = config.url,
                                                        .token = config.token,
                                                        .ca_file = config.ca_file,
                                                        .timeout_s = config.timeout_s,
                                                        .max_reply_bytes = build::kMaxBundleBytes,
                                                        .user_agent = "musacoder-worker"}));
    return ok();
  }
  Result<net::ClientReply> send(net::ClientRequest request, double extra_s = 0) {
    request.timeout_s = timeout_s_ + extra_s;
    return client_->send(request);
  }

  // What a reply that is not the one hoped for means.
  static Error refused(const std::string& path, const net::ClientReply& reply) {
    std::string message = fmt::format("{} answered {}", path, reply.status);
    if (const std::string why = net::reply_message(reply); !why.empty()) message += ": " + why;
    const Code code = reply.status == 409 ? Code::kNotFound
                      : reply.status == 429 || reply.status >= 500 || reply.status == 408
                          ? Code::kUnavailable
                          : Code::kInvalidArgument;
    return {code, message};
  }

 private:
  double timeout_s_ = 30;
  std::unique_ptr<net::HttpClient> client_;
};

class HttpSource : public WorkSource {
 public:
  Status open(const HttpSourceConfig& config) { return link_.open(config); }

  Result<std::optional<Lease>> lease(const LeaseRequest& request, double wait_s) override {
    auto reply = call("/v1/lease",
                      {{"worker", request.worker},
                       {"wait_s", wait_s},
                       {"visibility_s", request.visibility_s},
                       {"prefer", request.prefer},
                       {"role", role_name(request.role)}},
                      wait_s);
    if (!reply) return tl::unexpected(reply.error());
    if (reply->is_null()) return std::optional<Lease>();
    try {
      const json& given = reply->at("lease");
      Lease lease;
      lease.id = given.at("id").get<std::string>();
      const json& job = given.at("job");
      if (job.value("version", 1) > kRecordVersion)
        return fail(Code::kUnsupported, "the server's jobs are of a newer version ({}): update this worker",
                    job.value("version", 1));
      lease.job.id = job.at("id").get<std::string>();
      lease.job.lease = lease.id;
      lease.job.lease_until = given.value("until", 0.0);
      lease.job.attempts = given.value("attempt", 1);
      lease.job.state = JobState::kRunning;
      lease.job.started_at = job.value("started_at", 0.0);
      MC_ASSIGN_OR_RETURN(lease.job.spec, spec_from_text(job.at("spec").get<std::string>()));
      return std::optional<Lease>(std::move(lease));
    } catch (const json::exception& error) {
      return fail(Code::kInvalidArgument, "the server's reply is no lease: {}", error.what());
    }
  }

  Result<HeartbeatReply> heartbeat(const std::string& lease, const std::string& stage,
                                   double visibility_s) override {
    auto reply = call("/v1/heartbeat",
                      {{"lease", lease}, {"stage", stage.substr(0, 128)}, {"visibility_s", visibility_s}}, 0);
    if (!reply) return tl::unexpected(reply.error());
    return HeartbeatReply{reply->value("cancel", false), reply->value("until", 0.0)};
  }

  Result<bool> complete(const std::string& lease, const Outcome& outcome) override {
    json given = {{"status", outcome.status}, {"feedback", outcome.feedback}, {"code", outcome.code}};
    if (!outcome.verdict.empty()) {
      MC_ASSIGN_OR_RETURN(given["verdict"], base::parse_json(outcome.verdict));
    }
    auto reply = call("/v1/complete", {{"lease", lease}, {"outcome", given}}, 0);
    if (!reply) return tl::unexpected(reply.error());
    return reply->value("accepted", false);
  }

  Result<bool> release(const std::string& lease, const std::string& fault) override {
    auto reply = call("/v1/release", {{"lease", lease}, {"fault", fault.substr(0, 4096)}}, 0);
    if (!reply) return tl::unexpected(reply.error());
    return reply->value("accepted", false);
  }

  Result<bool> compiled(const std::string& lease) override {
    auto reply = call("/v1/release", {{"lease", lease}, {"compiled", true}}, 0);
    if (!reply) return tl::unexpected(reply.error());
    return reply->value("accepted", false);
  }

 private:
  // The reply's JSON; null for 204.
  Result<json> call(const std::string& path, const json& body, double extra_s) {
    auto reply = link_.send({.path = path, .body = dump_json(body)}, extra_s);
    if (!reply) return tl::unexpected(reply.error());
    if (reply->status == 204) return json();
    auto parsed = base::parse_json(reply->body);
    if (reply->status == 200 && parsed && parsed->is_object()) return std::move(*parsed);
    return tl::unexpected(Link::refused(path, *reply));
  }

  Link link_;
};

class HttpArtifacts : public build::ArtifactStore {
 public:
  Status open(const HttpSourceConfig& config) { return link_.open(config); }

  Result<bool> has(const std::string& key) override {
    MC_ASSIGN_OR_RETURN(const net::ClientReply reply,
                        link_.send({.path = path(key) + "?check=1", .method = "GET"}));
    if (reply.status == 204) return true;
    if (reply.status == 404) return false;
    return tl::unexpected(Link::refused(path(key), reply));
  }
  Result<std::optional<std::string>> get(const std::string& key) override {
    MC_ASSIGN_OR_RETURN(net::ClientReply reply, link_.send({.path = path(key), .method = "GET"}));
    if (reply.status == 404) return std::optional<std::string>();
    if (reply.status != 200) return tl::unexpected(Link::refused(path(key), reply));
    MC_RETURN_IF_ERROR(build::check_bundle(key, reply.body));
    return std::optional<std::string>(std::move(reply.body));
  }
  Status put(const std::string& key, const std::string& bundle) override {
    MC_RETURN_IF_ERROR(build::check_bundle(key, bundle));
    MC_ASSIGN_OR_RETURN(
        const net::ClientReply reply,
        link_.send({.path = path(key), .body = bundle, .method = "PUT", .type = "application/octet-stream"}));
    if (reply.status != 200) return tl::unexpected(Link::refused(path(key), reply));
    return ok();
  }

 private:
  static std::string path(const std::string& key) { return "/v1/artifacts/" + key; }
  Link link_;
};

}  // namespace

Result<std::unique_ptr<WorkSource>> make_http_source(const HttpSourceConfig& config) {
  auto source = std::make_unique<HttpSource>();
  MC_RETURN_IF_ERROR(source->open(config));
  return std::unique_ptr<WorkSource>(std::move(source));
}

Result<std::unique_ptr<build::ArtifactStore>> make_http_artifact_store(const HttpSourceConfig& config) {
  auto store = std::make_unique<HttpArtifacts>();
  MC_RETURN_IF_ERROR(store->open(config));
  return std::unique_ptr<build::ArtifactStore>(std::move(store));
}

}  // namespace musacoder::service
