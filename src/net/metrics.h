// What every server counts, in Prometheus' text format (prometheus-cpp): requests, refusals, connections,
// this process's memory and descriptors. A server adds its own families to registry(). Thread safe.
//
//   HttpMetrics metrics;
//   metrics.count_request("/v1/jobs", 202, 0.0012);
//   std::string text = metrics.text();     // content type: kMetricsType
#pragma once

#include <memory>
#include <string>

namespace prometheus {
class Registry;
}

namespace musacoder::net {

inline constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

class HttpMetrics {
 public:
  HttpMetrics();
  ~HttpMetrics();
  // `route` is a pattern, never the client's path, so that the number of series is bounded.
  void count_request(const std::string& route, int status, double seconds);
  void count_refusal(const std::string& reason);  // "quota", "queue_full", "draining", "token", ...
  void set_connections(std::size_t open, std::size_t websockets);
  prometheus::Registry& registry();
  std::string text();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace musacoder::net
