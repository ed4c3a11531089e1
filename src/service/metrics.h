// Counters, gauges and histograms of the service in Prometheus' text format (prometheus-cpp). Thread safe.
//
//   Metrics metrics;
//   metrics.count_submitted(3, 1);
//   std::string text = metrics.text();     // content type: text/plain; version=0.0.4; charset=utf-8
#pragma once

#include <map>
#include <memory>
#include <string>

#include "net/metrics.h"

namespace musacoder::service {

class Metrics {
 public:
  Metrics();
  ~Metrics();
  net::HttpMetrics& http();
  void count_refusal(const std::string& reason);  // "quota", "queue_full", "draining", "token", ...
  void count_submitted(std::size_t jobs, std::size_t cached);
  void job_ended(const std::string& status_class, double queued_s, double run_s,
                 const std::map<std::string, double>& stages);
  void set_queue(std::size_t queued, std::size_t running, double oldest_s);
  void set_workers(std::size_t lanes, std::size_t busy);
  std::string text();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace musacoder::service
