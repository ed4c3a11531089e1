#include <cupti.h>

#include <cstring>
#include <mutex>
#include <set>
#include <vector>

#include "fake.h"

namespace {

constexpr std::size_t kStride = 512;
union Record {
  CUpti_Activity any;
  CUpti_ActivityKernel10 kernel;
  CUpti_ActivityMemcpy6 copy;
  CUpti_ActivityMemset4 set;
  char bytes[kStride];
};

std::recursive_mutex mutex;
CUpti_CallbackFunc callback = nullptr;
void* user = nullptr;
CUpti_BuffersCallbackRequestFunc request = nullptr;
CUpti_BuffersCallbackCompleteFunc complete = nullptr;
std::set<int> kinds;
std::set<int> domains;
std::set<std::pair<int, unsigned>> single;
std::vector<Record> records;
bool losing = false;
unsigned correlation = 100;
std::uint64_t now = 1000;

bool enabled(int domain, unsigned id) {
  return callback && (domains.count(domain) || single.count({domain, id}));
}
void keep(const Record& record) {
  std::lock_guard lock(mutex);
  if (!losing && kinds.count(record.any.kind)) records.push_back(record);
}
void call_back(const FakeCall& call, CUpti_ApiCallbackSite site, int result) {
  if (!enabled(call.domain, call.id)) return;
  CUpti_CallbackData data{};
  data.callbackSite = site;
  data.functionName = call.function;
  data.functionParams = call.params;
  data.functionReturnValue = &result;
  data.symbolName = call.symbol;
  data.correlationId = call.correlation;
  callback(user, static_cast<CUpti_CallbackDomain>(call.domain), call.id, &data);
}
void node(unsigned id, std::uint64_t made, std::uint64_t original) {
  if (!enabled(CUPTI_CB_DOMAIN_RESOURCE, id)) return;
  CUpti_GraphData graph{};
  graph.node = reinterpret_cast<CUgraphNode>(made);
  graph.originalNode = reinterpret_cast<CUgraphNode>(original);
  graph.nodeType = CU_GRAPH_NODE_TYPE_KERNEL;
  CUpti_ResourceData data{};
  data.resourceDescriptor = &graph;
  callback(user, CUPTI_CB_DOMAIN_RESOURCE, id, &data);
}

}  // namespace

extern "C" {
void fake_enter(const FakeCall* call) { call_back(*call, CUPTI_API_ENTER, 0); }
void fake_exit(const FakeCall* call, int result) { call_back(*call, CUPTI_API_EXIT, result); }
void fake_node_created(std::uint64_t made) { node(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, made, 0); }
void fake_node_cloned(std::uint64_t made, std::uint64_t original) {
  node(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, made, original);
}
void fake_lose_records(int lose) { losing = lose; }
unsigned fake_correlation() { return ++correlation; }
void fake_kernel(const char* name, unsigned id, std::uint64_t graph_node, unsigned grid_x) {
  Record r{};
  r.kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  r.kernel.name = name;
  r.kernel.correlationId = id;
  r.kernel.graphNodeId = graph_node;
  r.kernel.gridX = static_cast<int>(grid_x);
  r.kernel.gridY = r.kernel.gridZ = r.kernel.blockY = r.kernel.blockZ = 1;
  r.kernel.blockX = 256;
  r.kernel.start = now += 10;
  r.kernel.end = now += 5;
  r.kernel.streamId = 7;
  keep(r);
}
void fake_copy(int kind, std::uint64_t bytes, unsigned id) {
  Record r{};
  r.copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  r.copy.copyKind = static_cast<std::uint8_t>(kind);
  r.copy.bytes = bytes;
  r.copy.correlationId = id;
  r.copy.start = now += 10;
  r.copy.end = now += 5;
  keep(r);
}
void fake_set(std::uint64_t bytes, unsigned id) {
  Record r{};
  r.set.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  r.set.bytes = bytes;
  r.set.correlationId = id;
  keep(r);
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc function, void* data) {
  callback = function;
  user = data;
  *handle = reinterpret_cast<CUpti_SubscriberHandle>(&callback);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) { return callback = nullptr, CUPTI_SUCCESS; }
CUptiResult cuptiEnableCallback(std::uint32_t on, CUpti_SubscriberHandle, CUpti_CallbackDomain domain,
                                CUpti_CallbackId id) {
  if (on)
    single.insert({domain, id});
  else
    single.erase({domain, id});
  return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableDomain(std::uint32_t on, CUpti_SubscriberHandle, CUpti_CallbackDomain domain) {
  if (on)
    domains.insert(domain);
  else
    domains.erase(domain);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) { return kinds.insert(kind), CUPTI_SUCCESS; }
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) { return kinds.erase(kind), CUPTI_SUCCESS; }
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc a,
                                           CUpti_BuffersCallbackCompleteFunc b) {
  request = a;
  complete = b;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(std::uint32_t) {
  std::vector<Record> out;
  {
    std::lock_guard lock(mutex);
    out.swap(records);
  }
  std::size_t at = 0;
  while (at < out.size()) {
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0, most = 0;
    request(&buffer, &size, &most);
    if (!buffer) break;
    std::size_t n = 0;
    for (; at < out.size() && (n + 1) * kStride <= size; ++at, ++n)
      std::memcpy(buffer + n * kStride, &out[at], kStride);
    complete(nullptr, 0, buffer, size, n * kStride);
  }
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** record) {
  auto* next = *record ? reinterpret_cast<std::uint8_t*>(*record) + kStride : buffer;
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
  return *dropped = 0, CUPTI_SUCCESS;
}
CUptiResult cuptiGetGraphNodeId(CUgraphNode made, std::uint64_t* id) {
  return *id = reinterpret_cast<std::uint64_t>(made), CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult, const char** text) { return *text = "fake", CUPTI_SUCCESS; }
CUptiResult cuptiGetVersion(std::uint32_t* version) { return *version = 130001, CUPTI_SUCCESS; }
}
