#include "service/artifacts.h"

#include <charconv>

#include "service/nats_link.h"

namespace musacoder::service {
namespace {

using base::Deadline;

constexpr double kPatienceS = 10;
constexpr std::size_t kPieceBytes = 512u << 10;
constexpr double kMaxAgeS = 30 * 24 * 3600;

// PREFIX.artifacts.KEY.head holds how many pieces there are and is written last.
class NatsStore : public build::ArtifactStore {
 public:
  explicit NatsStore(NatsAddress address)
      : address_(std::move(address)), stream_(address_.prefix + "_artifacts") {}

  Status prepare() {
    MC_ASSIGN_OR_RETURN(link_, NatsLink::open(address_));
    return link_->ensure(
        {.name = stream_, .subject = address_.prefix + ".artifacts.>", .max_age_s = kMaxAgeS}, patience());
  }

  Result<bool> has(const std::string& key) override {
    if (!build::is_artifact_key(key)) return false;
    MC_ASSIGN_OR_RETURN(const auto head, link_->last(stream_, subject(key, "head"), patience()));
    return head.has_value();
  }

  Result<std::optional<std::string>> get(const std::string& key) override {
    const std::optional<std::string> none;
    if (!build::is_artifact_key(key)) return none;
    const Deadline deadline = patience();
    MC_ASSIGN_OR_RETURN(const auto head, link_->last(stream_, subject(key, "head"), deadline));
    if (!head) return none;
    std::size_t pieces = 0;
    const char* end = head->data.data() + head->data.size();
    if (std::from_chars(head->data.data(), end, pieces).ptr != end || pieces > build::kMaxBundleBytes / 1024)
      return none;
    std::string bundle;
    for (std::size_t i = 0; i < pieces; ++i) {
      MC_ASSIGN_OR_RETURN(const auto piece, link_->last(stream_, subject(key, std::to_string(i)), deadline));
      if (!piece) return none;  // grew old
      bundle += piece->data;
      if (bundle.size() > build::kMaxBundleBytes) return none;
    }
    MC_RETURN_IF_ERROR(build::check_bundle(key, bundle));
    return std::optional<std::string>(std::move(bundle));
  }

  Status put(const std::string& key, const std::string& bundle) override {
    MC_RETURN_IF_ERROR(build::check_bundle(key, bundle));
    const Deadline deadline = patience();
    MC_ASSIGN_OR_RETURN(const auto head, link_->last(stream_, subject(key, "head"), deadline));
    if (head) return ok();
    const std::size_t size = std::min(kPieceBytes, link_->max_payload() - (32u << 10));
    std::size_t pieces = 0;
    for (std::size_t at = 0; at < bundle.size(); at += size, ++pieces)
      MC_RETURN_IF_ERROR(
          link_->put(subject(key, std::to_string(pieces)), bundle.substr(at, size), {}, deadline));
    MC_RETURN_IF_ERROR(link_->put(subject(key, "head"), std::to_string(pieces), {}, deadline));
    return ok();
  }

 private:
  static Deadline patience() { return Deadline::in(kPatienceS); }
  std::string subject(const std::string& key, const std::string& part) const {
    return fmt::format("{}.artifacts.{}.{}", address_.prefix, key, part);
  }
  const NatsAddress address_;
  const std::string stream_;
  std::unique_ptr<NatsLink> link_;
};

}  // namespace

Result<std::shared_ptr<build::ArtifactStore>> open_artifact_store(const std::string& url,
                                                                  const HttpSourceConfig& http) {
  using Store = std::shared_ptr<build::ArtifactStore>;
  constexpr std::string_view kFolder = "dir:";
  if (url.rfind(kFolder, 0) == 0 && url.size() > kFolder.size())
    return Store(build::make_folder_store(url.substr(kFolder.size())));
  if (url.rfind("nats://", 0) == 0) {
    MC_ASSIGN_OR_RETURN(NatsAddress address, parse_nats_url(url));
    auto store = std::make_shared<NatsStore>(std::move(address));
    MC_RETURN_IF_ERROR(store->prepare());
    return Store(std::move(store));
  }
  if (url.rfind("http", 0) == 0) {
    HttpSourceConfig config = http;
    config.url = url;
    MC_ASSIGN_OR_RETURN(auto store, make_http_artifact_store(config));
    return Store(std::move(store));
  }
  return fail(Code::kInvalidArgument,
              "'{}' is no store of artefacts; give dir:PATH, nats://HOST:PORT[/PREFIX] or http://HOST:PORT",
              url);
}

}  // namespace musacoder::service
