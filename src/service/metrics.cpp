#include "service/metrics.h"

#include <dirent.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <fstream>

namespace musacoder::service {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;

const prometheus::Histogram::BucketBoundaries kRequestBuckets = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                                 0.1,    0.5,   2.5,    10,    60,   300};
const prometheus::Histogram::BucketBoundaries kJobBuckets = {0.05, 0.1, 0.25, 0.5, 1,   2.5, 5,
                                                             10,   20,  40,   80,  160, 320, 640};

double open_descriptors() {
  DIR* dir = opendir("/proc/self/fd");
  if (!dir) return 0;
  double count = -3;  // ".", ".." and this folder's own
  while (readdir(dir)) ++count;
  closedir(dir);
  return count;
}

double resident_bytes() {
  std::ifstream in("/proc/self/statm");
  double pages = 0, resident = 0;
  in >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& requests =
      BuildCounter().Name("musacoder_http_requests_total").Help("Requests answered.").Register(registry);
  prometheus::Family<prometheus::Histogram>& request_seconds =
      BuildHistogram()
          .Name("musacoder_http_request_seconds")
          .Help("From the whole request to the reply, waits included.")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& refusals =
      BuildCounter().Name("musacoder_refusals_total").Help("Requests refused, by reason.").Register(registry);
  prometheus::Family<prometheus::Counter>& submitted_family =
      BuildCounter()
          .Name("musacoder_jobs_submitted_total")
          .Help("Jobs taken, by whether an earlier verdict answered.")
          .Register(registry);
  prometheus::Family<prometheus::Counter>& ended = BuildCounter()
                                                       .Name("musacoder_jobs_ended_total")
                                                       .Help("Jobs ended, by class of status.")
                                                       .Register(registry);
  prometheus::Family<prometheus::Histogram>& stage_seconds =
      BuildHistogram()
          .Name("musacoder_stage_seconds")
          .Help("Seconds of each stage of judging; queued and run as well.")
          .Register(registry);
  prometheus::Family<prometheus::Gauge>& jobs =
      BuildGauge().Name("musacoder_jobs").Help("Unfinished jobs, by state.").Register(registry);
  prometheus::Family<prometheus::Gauge>& lanes =
      BuildGauge().Name("musacoder_lanes").Help("Lanes seen, by state.").Register(registry);
  prometheus::Family<prometheus::Gauge>& connections =
      BuildGauge().Name("musacoder_connections").Help("Open connections, by kind.").Register(registry);
  prometheus::Gauge& oldest = BuildGauge()
                                  .Name("musacoder_oldest_queued_seconds")
                                  .Help("Age of the job that waits longest.")
                                  .Register(registry)
                                  .Add({});
  prometheus::Gauge& resident = BuildGauge()
                                    .Name("process_resident_memory_bytes")
                                    .Help("Resident memory of the server.")
                                    .Register(registry)
                                    .Add({});
  prometheus::Gauge& descriptors =
      BuildGauge().Name("process_open_fds").Help("Open file descriptors.").Register(registry).Add({});
  prometheus::TextSerializer serializer;
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

void Metrics::count_request(const std::string& route, int status, double seconds) {
  impl_->requests.Add({{"route", route}, {"code", std::to_string(status)}}).Increment();
  impl_->request_seconds.Add({{"route", route}}, kRequestBuckets).Observe(seconds);
}
void Metrics::count_refusal(const std::string& reason) {
  impl_->refusals.Add({{"reason", reason}}).Increment();
}
void Metrics::count_submitted(std::size_t jobs, std::size_t cached) {
  impl_->submitted_family.Add({{"cached", "false"}}).Increment(static_cast<double>(jobs - cached));
  impl_->submitted_family.Add({{"cached", "true"}}).Increment(static_cast<double>(cached));
}
void Metrics::job_ended(const std::string& status_class, double queued_s, double run_s,
                        const std::map<std::string, double>& stages) {
  impl_->ended.Add({{"class", status_class}}).Increment();
  impl_->stage_seconds.Add({{"stage", "queued"}}, kJobBuckets).Observe(queued_s);
  impl_->stage_seconds.Add({{"stage", "run"}}, kJobBuckets).Observe(run_s);
  for (const auto& [stage, seconds] : stages)
    impl_->stage_seconds.Add({{"stage", stage}}, kJobBuckets).Observe(seconds);
}
void Metrics::set_queue(std::size_t queued, std::size_t running, double oldest_s) {
  impl_->jobs.Add({{"state", "queued"}}).Set(static_cast<double>(queued));
  impl_->jobs.Add({{"state", "running"}}).Set(static_cast<double>(running));
  impl_->oldest.Set(oldest_s);
}
void Metrics::set_connections(std::size_t open, std::size_t websockets) {
  impl_->connections.Add({{"kind", "all"}}).Set(static_cast<double>(open));
  impl_->connections.Add({{"kind", "websocket"}}).Set(static_cast<double>(websockets));
}
void Metrics::set_workers(std::size_t lanes, std::size_t busy) {
  impl_->lanes.Add({{"state", "busy"}}).Set(static_cast<double>(busy));
  impl_->lanes.Add({{"state", "idle"}}).Set(static_cast<double>(lanes - std::min(lanes, busy)));
}

std::string Metrics::text() {
  impl_->resident.Set(resident_bytes());
  impl_->descriptors.Set(open_descriptors());
  return impl_->serializer.Serialize(impl_->registry.Collect());
}

}  // namespace musacoder::service
