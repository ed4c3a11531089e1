#include "service/server.h"

#include <set>

#include "service/websockets.h"

namespace musacoder::service {
namespace {

class JobsPending : public net::Pending {
 public:
  JobsPending(Service& service, Wait wait)
      : service_(service),
        wait_(std::move(wait)),
        left_(std::make_shared<Left>(wait_.jobs.begin(), wait_.jobs.end())) {
    seconds = wait_.seconds;
  }
  void watch(std::function<void()> wake) override {
    subscription_ =
        service_.subscribe(wait_.jobs, [left = left_, wake = std::move(wake)](const Change& change) {
          if (has_ended(change.state) && left->remove({change.id})) wake();
        });
  }
  std::optional<net::Reply> poll(bool over) override {
    if (!looked_) {  // those that ended before they were watched
      looked_ = true;
      std::vector<std::string> ended;
      for (const auto& id : wait_.jobs)
        if (auto job = service_.queue().get(id); job && *job && has_ended((*job)->state)) ended.push_back(id);
      left_->remove(ended);
    }
    const bool all = left_->remove({});
    if (!all && !over) return std::nullopt;
    return to_net(service_, wait_.then(all));
  }

 private:
  class Left {
   public:
    template <typename Iterator>
    Left(Iterator begin, Iterator end) : ids_(begin, end) {}
    // Whether none is left.
    bool remove(const std::vector<std::string>& ended) {
      std::lock_guard lock(mutex_);
      for (const auto& id : ended) ids_.erase(id);
      return ids_.empty();
    }

   private:
    std::mutex mutex_;
    std::set<std::string> ids_;
  };
  Service& service_;
  Wait wait_;
  std::shared_ptr<Left> left_;
  Subscription subscription_;
  bool looked_ = false;
};

// That work is waiting. A lost race for the job is no reason to answer: it is looked whether something waits.
class WorkPending : public net::Pending {
 public:
  WorkPending(Service& service, Wait wait) : service_(service), wait_(std::move(wait)) {
    seconds = wait_.seconds;
  }
  void watch(std::function<void()> wake) override {
    subscription_ = service_.subscribe_work(std::move(wake));
  }
  std::optional<net::Reply> poll(bool over) override {
    // The route has just looked: what it found is nothing for this worker.
    const bool first = std::exchange(first_, false);
    if (!over && !service_.draining()) {
      if (first) return std::nullopt;
      const auto stats = service_.queue().stats();
      if (stats && stats->queued == 0) return std::nullopt;
    }
    return to_net(service_, wait_.then(false));
  }

 private:
  Service& service_;
  Wait wait_;
  Subscription subscription_;
  bool first_ = true;
};

class JobEvents : public net::EventSource {
 public:
  JobEvents(Service& service, std::string id) : service_(service), id_(std::move(id)) {}
  void watch(std::function<void()> wake) override {
    subscription_ = service_.subscribe({id_}, [wake = std::move(wake)](const Change&) { wake(); });
  }
  Piece next() override {
    const auto job = service_.queue().get(id_);
    if (!job || !*job) return {"", true};
    if ((*job)->revision == sent_) return {};
    sent_ = (*job)->revision;
    const bool ended = has_ended((*job)->state);
    return {fmt::format("event: {}\nid: {}\ndata: {}\n\n", state_name((*job)->state), sent_,
                        service_.view(**job, ended)),
            ended};
  }

 private:
  Service& service_;
  std::string id_;
  Subscription subscription_;
  std::uint64_t sent_ = 0;
};

class RouterHandler : public net::Handler {
 public:
  explicit RouterHandler(Router& router) : router_(router), websockets_(make_websockets(router)) {}
  std::optional<net::Reply> refuse_early(const Request& request) override {
    auto refused = router_.refuse_early(request);
    return refused ? std::optional<net::Reply>(std::move(*refused)) : std::nullopt;
  }
  net::Reply handle(const Request& request) override {
    return to_net(router_.service(), router_.handle(request));
  }
  net::Reply error_reply(const ApiError& error, const std::string& request_id) const override {
    return service::error_reply(error, request_id);
  }
  std::string pattern_of(const Request& request) const override { return router_.pattern_of(request); }
  net::HttpMetrics& metrics() override { return router_.service().metrics().http(); }
  net::Upgrader* upgrader(const Request& request) override {
    return request.path == "/v1/ws" || request.path == "/ws" ? websockets_.get() : nullptr;
  }

 private:
  Router& router_;
  std::shared_ptr<net::Upgrader> websockets_;
};

}  // namespace

net::Reply to_net(Service& service, Reply reply) {
  if (reply.wait) {
    const bool jobs = !reply.wait->jobs.empty();
    if (jobs)
      reply.pending = std::make_shared<JobsPending>(service, std::move(*reply.wait));
    else
      reply.pending = std::make_shared<WorkPending>(service, std::move(*reply.wait));
  } else if (!reply.stream_job.empty()) {
    reply.events = std::make_shared<JobEvents>(service, std::move(reply.stream_job));
  }
  return reply;
}

struct Server::Impl {
  Impl(Router& router, ServerConfig config) : handler(router), server(handler, std::move(config)) {}
  RouterHandler handler;
  net::Server server;
};

Server::Server(Router& router, ServerConfig config)
    : impl_(std::make_unique<Impl>(router, std::move(config))) {}
Server::~Server() = default;
Status Server::start() { return impl_->server.start(); }
std::vector<std::string> Server::addresses() const { return impl_->server.addresses(); }
void Server::stop(double grace_s) { impl_->server.stop(grace_s); }

}  // namespace musacoder::service
