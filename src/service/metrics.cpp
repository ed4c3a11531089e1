#include "service/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

namespace musacoder::service {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;

const prometheus::Histogram::BucketBoundaries kJobBuckets = {0.05, 0.1, 0.25, 0.5, 1,   2.5, 5,
                                                             10,   20,  40,   80,  160, 320, 640};

}  // namespace

struct Metrics::Impl {
  net::HttpMetrics http;
  prometheus::Registry& registry = http.registry();
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
  prometheus::Gauge& oldest = BuildGauge()
                                  .Name("musacoder_oldest_queued_seconds")
                                  .Help("Age of the job that waits longest.")
                                  .Register(registry)
                                  .Add({});
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;
net::HttpMetrics& Metrics::http() { return impl_->http; }
void Metrics::count_refusal(const std::string& reason) { impl_->http.count_refusal(reason); }
std::string Metrics::text() { return impl_->http.text(); }
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
void Metrics::set_workers(std::size_t lanes, std::size_t busy) {
  impl_->lanes.Add({{"state", "busy"}}).Set(static_cast<double>(busy));
  impl_->lanes.Add({{"state", "idle"}}).Set(static_cast<double>(lanes - std::min(lanes, busy)));
}

}  // namespace musacoder::service
