// Counters, gauges and histograms of the service in Prometheus' text format (prometheus-cpp). Thread safe.
//
//   Metrics metrics;
//   metrics.count_request("/v1/jobs", 202, 0.0012);
//   std::string text = metrics.text();     // content type: text/plain; version=0.0.4; charset=utf-8
#pragma once

#include <map>
#include <memory>
#include <string>

namespace musacoder::service {

class Metrics {
 public:
  Metrics();
  ~Metrics();
  // `route` is a pattern of the route table, never the client's path, so that the number of series is
  // bounded.
  void count_request(const std::string& route, int status, double seconds);
  void count_refusal(const std::string& reason);  // "quota", "queue_full", "draining", "token", ...
  void count_submitted(std::size_t jobs, std::size_t cached);
  void job_ended(const std::string& status_class, double queued_s, double run_s,
                 const std::map<std::string, double>& stages);
  void set_queue(std::size_t queued, std::size_t running, double oldest_s);
  void set_connections(std::size_t open, std::size_t websockets);
  void set_workers(std::size_t lanes, std::size_t busy);
  // Also reads this process's memory and open descriptors.
  std::string text();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace musacoder::service
