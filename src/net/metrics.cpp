#include "net/metrics.h"

#include <dirent.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <fstream>

namespace musacoder::net {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;

const prometheus::Histogram::BucketBoundaries kRequestBuckets = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                                 0.1,    0.5,   2.5,    10,    60,   300};

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

struct HttpMetrics::Impl {
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
  prometheus::Family<prometheus::Gauge>& connections =
      BuildGauge().Name("musacoder_connections").Help("Open connections, by kind.").Register(registry);
  prometheus::Gauge& resident = BuildGauge()
                                    .Name("process_resident_memory_bytes")
                                    .Help("Resident memory of the server.")
                                    .Register(registry)
                                    .Add({});
  prometheus::Gauge& descriptors =
      BuildGauge().Name("process_open_fds").Help("Open file descriptors.").Register(registry).Add({});
  prometheus::TextSerializer serializer;
};

HttpMetrics::HttpMetrics() : impl_(std::make_unique<Impl>()) {}
HttpMetrics::~HttpMetrics() = default;
prometheus::Registry& HttpMetrics::registry() { return impl_->registry; }

void HttpMetrics::count_request(const std::string& route, int status, double seconds) {
  impl_->requests.Add({{"route", route}, {"code", std::to_string(status)}}).Increment();
  impl_->request_seconds.Add({{"route", route}}, kRequestBuckets).Observe(seconds);
}
void HttpMetrics::count_refusal(const std::string& reason) {
  impl_->refusals.Add({{"reason", reason}}).Increment();
}
void HttpMetrics::set_connections(std::size_t open, std::size_t websockets) {
  impl_->connections.Add({{"kind", "all"}}).Set(static_cast<double>(open));
  impl_->connections.Add({{"kind", "websocket"}}).Set(static_cast<double>(websockets));
}

std::string HttpMetrics::text() {
  impl_->resident.Set(resident_bytes());
  impl_->descriptors.Set(open_descriptors());
  return impl_->serializer.Serialize(impl_->registry.Collect());
}

}  // namespace musacoder::net
