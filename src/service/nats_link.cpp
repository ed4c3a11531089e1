#include "service/nats_link.h"

#include <nats/nats.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

namespace musacoder::service {
namespace {

constexpr const char* kLanes = "lanes";  // the bell's consumer
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr int kAttemptMs = 3000;  // one exchange; then it is repeated
constexpr double kPauseS = 0.1;

template <typename T, void (*destroy)(T*)>
struct Handle {
  T* p = nullptr;
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (p) destroy(p);
  }
};
using MessageHandle = Handle<natsMsg, natsMsg_Destroy>;

enum class Kind { kOk, kAgain, kConflict, kMissing, kFull, kRefused };

Kind kind_of(natsStatus status, jsErrCode code) {
  if (status == NATS_OK) return Kind::kOk;
  switch (code) {
    case JSStreamWrongLastSequenceErr:
      return Kind::kConflict;
    case JSStorageResourcesExceededErr:
    case JSInsufficientResourcesErr:
    case JSMemoryResourcesExceededErr:
    case JSStreamStoreFailedErr:
      return Kind::kFull;
    default:
      break;
  }
  switch (status) {
    case NATS_NOT_FOUND:
      return Kind::kMissing;
    case NATS_INVALID_ARG:
    case NATS_INVALID_SUBJECT:
    case NATS_MAX_PAYLOAD:
    case NATS_NOT_PERMITTED:
    case NATS_CONNECTION_AUTH_FAILED:
    case NATS_ADDRESS_MISSING:
    case NATS_NO_MEMORY:
      return Kind::kRefused;
    default:
      return Kind::kAgain;
  }
}

std::string text_of(natsStatus status) {
  natsStatus last = NATS_OK;
  const char* detail = nats_GetLastError(&last);
  if (detail && *detail && last == status) return detail;
  return natsStatus_GetText(status);
}

void count_up(natsConnection*, natsSubscription*, natsMsg* message, void* counter) {
  ++*static_cast<std::atomic<std::uint64_t>*>(counter);
  natsMsg_Destroy(message);
}
void count_reconnect(natsConnection*, void* counter) { ++*static_cast<std::atomic<std::uint64_t>*>(counter); }
void ignore_error(natsConnection*, natsSubscription*, natsStatus, void*) {}

}  // namespace

Result<NatsAddress> parse_nats_url(const std::string& url) {
  constexpr std::string_view kScheme = "nats://";
  NatsAddress address;
  const auto malformed = [&] {
    return fail(Code::kInvalidArgument,
                "the queue's address is not nats://[USER:PASSWORD@]HOST[:PORT][/PREFIX] with letters, "
                "digits, '-' and "
                "'_' in PREFIX");
  };
  if (url.rfind(kScheme, 0) != 0) return malformed();
  std::string rest = url.substr(kScheme.size());
  const auto at = rest.rfind('@');
  const auto slash = rest.find('/', at == std::string::npos ? 0 : at);
  if (slash != std::string::npos) {
    if (const std::string prefix = rest.substr(slash + 1); !prefix.empty()) address.prefix = prefix;
    rest.resize(slash);
  }
  const std::string host = at == std::string::npos ? rest : rest.substr(at + 1);
  if (host.empty() || host[0] == ':' || address.prefix.size() > 64 ||
      !std::all_of(address.prefix.begin(), address.prefix.end(),
                   [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; }))
    return malformed();
  address.server = std::string(kScheme) + rest;
  address.shown = std::string(kScheme) + host;
  return address;
}

struct NatsLink::Impl {
  NatsAddress address;
  natsConnection* connection = nullptr;
  jsCtx* js = nullptr;
  std::mutex mutex;
  std::vector<natsSubscription*> subscriptions, idle_bells;

  ~Impl() {
    for (auto* list : {&subscriptions, &idle_bells})
      for (natsSubscription* one : *list) natsSubscription_Destroy(one);
    jsCtx_Destroy(js);
    natsConnection_Destroy(connection);
  }

  // One message of a stream; null when there is none.
  Result<std::optional<Message>> read(const std::string& stream, const jsDirectGetMsgOptions& which, const base::Deadline& deadline);

  // Calls `once(wait_ms, code)` until it is decided or the deadline has passed.
  template <typename Once>
  Result<Kind> insist(const char* doing, const base::Deadline& deadline, Once&& once) {
    for (;;) {
      jsErrCode code{};
      const int wait_ms = std::clamp(deadline.poll_ms(kAttemptMs), 50, kAttemptMs);
      const natsStatus status = once(wait_ms, &code);
      const Kind kind = kind_of(status, code);
      if (kind == Kind::kFull)
        return fail(Code::kResourceExhausted,
                    "the NATS server {} has no room while {} ({}): nothing was stored", address.shown, doing,
                    text_of(status));
      if (kind == Kind::kRefused)
        return fail(Code::kInvalidArgument, "NATS at {} refused {}: {}", address.shown, doing,
                    text_of(status));
      if (kind != Kind::kAgain) return kind;
      if (deadline.remaining() < kPauseS)
        return fail(Code::kUnavailable,
                    "NATS at {} did not answer while {} ({}); is nats-server running with JetStream (-js)?",
                    address.shown, doing, text_of(status));
      std::this_thread::sleep_for(std::chrono::duration<double>(kPauseS));
    }
  }
};

NatsLink::NatsLink() : impl_(std::make_unique<Impl>()) {}
NatsLink::~NatsLink() = default;

Result<std::unique_ptr<NatsLink>> NatsLink::open(const NatsAddress& address, double wait_s) {
  std::unique_ptr<NatsLink> link(new NatsLink());
  Impl& impl = *link->impl_;
  impl.address = address;
  Handle<natsOptions, natsOptions_Destroy> options;
  natsStatus status = natsOptions_Create(&options.p);
  const auto set = [&](natsStatus next) {
    if (status == NATS_OK) status = next;
  };
  set(natsOptions_SetURL(options.p, address.server.c_str()));
  set(natsOptions_SetName(options.p, "musacoder"));
  set(natsOptions_SetTimeout(options.p, 2000));
  set(natsOptions_SetAllowReconnect(options.p, true));
  set(natsOptions_SetMaxReconnect(options.p, -1));
  set(natsOptions_SetReconnectWait(options.p, 200));
  set(natsOptions_SetReconnectJitter(options.p, 100, 100));
  set(natsOptions_SetPingInterval(options.p, 5000));
  set(natsOptions_SetMaxPingsOut(options.p, 2));
  set(natsOptions_SetFailRequestsOnDisconnect(options.p, true));
  set(natsOptions_SetReconnectedCB(options.p, count_reconnect, &link->reconnects_));
  set(natsOptions_SetErrorHandler(options.p, ignore_error, nullptr));
  if (status != NATS_OK)
    return fail(Code::kInvalidArgument, "cannot use the NATS address {}: {}", address.shown, text_of(status));
  const base::Deadline deadline = base::Deadline::in(wait_s);
  MC_RETURN_IF_ERROR(impl.insist("connecting", deadline, [&](int, jsErrCode*) {
    return natsConnection_Connect(&impl.connection, options.p);
  }));
  jsOptions js_options;
  jsOptions_Init(&js_options);
  if (status = natsConnection_JetStream(&impl.js, impl.connection, &js_options); status != NATS_OK)
    return fail(Code::kUnavailable, "cannot use JetStream at {}: {}", address.shown, text_of(status));
  return link;
}

Status NatsLink::ensure(const Stream& stream, const base::Deadline& deadline) {
  const char* subjects[] = {stream.subject.c_str()};
  auto exists = [&]() -> Result<bool> {
    Handle<jsStreamInfo, jsStreamInfo_Destroy> info;
    bool missing = false;
    MC_RETURN_IF_ERROR(impl_->insist("looking for a stream", deadline, [&](int wait_ms, jsErrCode* code) {
      jsOptions o;
      jsOptions_Init(&o);
      o.Wait = wait_ms;
      natsStatus status = js_GetStreamInfo(&info.p, impl_->js, stream.name.c_str(), &o, code);
      missing = status == NATS_NOT_FOUND || *code == JSStreamNotFoundErr;
      return missing ? NATS_OK : status;
    }));
    if (missing) return false;
    if (info.p->Config->SubjectsLen != 1 || info.p->Config->Subjects[0] != stream.subject ||
        info.p->Config->MaxMsgsPerSubject != stream.per_subject || !info.p->Config->AllowDirect ||
        (info.p->Config->Retention == js_WorkQueuePolicy) != stream.work_queue)
      return fail(Code::kInvalidArgument,
                  "the NATS stream {} belongs to another program or version; give another prefix: "
                  "nats://HOST:PORT/PREFIX",
                  stream.name);
    return true;
  };
  MC_ASSIGN_OR_RETURN(const bool there, exists());
  if (there) return ok();
  jsStreamConfig config;
  jsStreamConfig_Init(&config);
  config.Name = stream.name.c_str();
  config.Description = "MusaCoder";
  config.Subjects = subjects;
  config.SubjectsLen = 1;
  config.Storage = js_FileStorage;
  config.MaxMsgsPerSubject = stream.per_subject;
  config.MaxMsgs = stream.max_messages;
  config.MaxBytes = stream.max_bytes;
  config.Retention = stream.work_queue ? js_WorkQueuePolicy : js_LimitsPolicy;
  config.MaxAge = static_cast<std::int64_t>(stream.max_age_s * kSecond);
  config.AllowDirect = true;
  MC_RETURN_IF_ERROR(impl_->insist("making a stream", deadline, [&](int wait_ms, jsErrCode* code) {
    jsOptions o;
    jsOptions_Init(&o);
    o.Wait = wait_ms;
    Handle<jsStreamInfo, jsStreamInfo_Destroy> info;
    const natsStatus status = js_AddStream(&info.p, impl_->js, &config, &o, code);
    return *code == JSStreamNameExistErr ? NATS_OK : status;
  }));
  MC_ASSIGN_OR_RETURN(const bool made, exists());
  if (!made) return fail(Code::kUnavailable, "the NATS stream {} was made and is gone", stream.name);
  return ok();
}

Result<NatsLink::State> NatsLink::state(const std::string& stream, const base::Deadline& deadline) {
  State state;
  MC_RETURN_IF_ERROR(impl_->insist("looking at a stream", deadline, [&](int wait_ms, jsErrCode* code) {
    jsOptions o;
    jsOptions_Init(&o);
    o.Wait = wait_ms;
    Handle<jsStreamInfo, jsStreamInfo_Destroy> info;
    const natsStatus status = js_GetStreamInfo(&info.p, impl_->js, stream.c_str(), &o, code);
    if (status == NATS_NOT_FOUND) return NATS_TIMEOUT;  // just after a restart
    if (status == NATS_OK) {
      state.last_sequence = info.p->State.LastSeq;
      state.created = info.p->Created;
      state.messages = info.p->State.Msgs;
      state.bytes = info.p->State.Bytes;
    }
    return status;
  }));
  return state;
}

Result<NatsLink::Put> NatsLink::put(const std::string& subject, const std::string& data, const Expect& expect,
                                    const base::Deadline& deadline) {
  Put put;
  MC_ASSIGN_OR_RETURN(const Kind kind, impl_->insist("storing", deadline, [&](int wait_ms, jsErrCode* code) {
    jsPubOptions o;
    jsPubOptions_Init(&o);
    o.MaxWait = wait_ms;
    o.ExpectLastSeq = expect.stream_last.value_or(0);
    o.ExpectLastSubjectSeq = expect.subject_last.value_or(0);
    o.ExpectNoMessage = expect.subject_last && *expect.subject_last == 0;
    Handle<jsPubAck, jsPubAck_Destroy> ack;
    const natsStatus status =
        js_Publish(&ack.p, impl_->js, subject.c_str(), data.data(), static_cast<int>(data.size()), &o, code);
    if (status == NATS_OK) put.sequence = ack.p->Sequence;
    return status;
  }));
  put.conflict = kind == Kind::kConflict;
  if (kind == Kind::kMissing) return fail(Code::kUnavailable, "no NATS stream takes {}", subject);
  return put;
}

namespace {

std::optional<NatsLink::Message> taken(natsMsg* message) {
  const char* data = natsMsg_GetData(message);
  return NatsLink::Message{
      natsMsg_GetSequence(message), natsMsg_GetSubject(message),
      std::string(data ? data : "", static_cast<std::size_t>(natsMsg_GetDataLength(message)))};
}

}  // namespace

Result<std::optional<NatsLink::Message>> NatsLink::Impl::read(const std::string& stream,
                                                              const jsDirectGetMsgOptions& which,
                                                              const base::Deadline& deadline) {
  std::optional<Message> found;
  MC_RETURN_IF_ERROR(insist("reading", deadline, [&](int wait_ms, jsErrCode*) {
    jsOptions o;
    jsOptions_Init(&o);
    o.Wait = wait_ms;
    jsDirectGetMsgOptions get = which;
    MessageHandle message;
    const natsStatus status = js_DirectGetMsg(&message.p, js, stream.c_str(), &o, &get);
    if (status == NATS_OK) found = taken(message.p);
    return status;
  }));
  return found;
}

Result<std::optional<NatsLink::Message>> NatsLink::next(const std::string& stream, std::uint64_t sequence,
                                                        const base::Deadline& deadline) {
  jsDirectGetMsgOptions get;
  jsDirectGetMsgOptions_Init(&get);
  get.Sequence = sequence;
  get.NextBySubject = ">";
  return impl_->read(stream, get, deadline);
}

Result<std::optional<NatsLink::Message>> NatsLink::last(const std::string& stream, const std::string& subject,
                                                        const base::Deadline& deadline) {
  jsDirectGetMsgOptions get;
  jsDirectGetMsgOptions_Init(&get);
  get.LastBySubject = subject.c_str();
  return impl_->read(stream, get, deadline);
}

Status NatsLink::purge(const std::string& stream, const std::string& subject,
                       const base::Deadline& deadline) {
  MC_RETURN_IF_ERROR(impl_->insist("removing", deadline, [&](int wait_ms, jsErrCode* code) {
    jsOptions o;
    jsOptions_Init(&o);
    o.Wait = wait_ms;
    o.Stream.Purge.Subject = subject.c_str();
    return js_PurgeStream(impl_->js, stream.c_str(), &o, code);
  }));
  return ok();
}

Status NatsLink::erase(const std::string& stream, std::uint64_t sequence, const base::Deadline& deadline) {
  MC_RETURN_IF_ERROR(impl_->insist("removing", deadline, [&](int wait_ms, jsErrCode* code) {
    jsOptions o;
    jsOptions_Init(&o);
    o.Wait = wait_ms;
    const natsStatus status = js_DeleteMsg(impl_->js, stream.c_str(), sequence, &o, code);
    return *code == JSNoMessageFoundErr ? NATS_OK : status;
  }));
  return ok();
}

Status NatsLink::follow(const std::string& subject) {
  natsSubscription* subscription = nullptr;
  const natsStatus status =
      natsConnection_Subscribe(&subscription, impl_->connection, subject.c_str(), count_up, &news_);
  if (status != NATS_OK)
    return fail(Code::kUnavailable, "cannot follow {} at {}: {}", subject, impl_->address.shown,
                text_of(status));
  std::lock_guard lock(impl_->mutex);
  impl_->subscriptions.push_back(subscription);
  return ok();
}

Status NatsLink::make_bell(const Stream& stream, const base::Deadline& deadline) {
  MC_RETURN_IF_ERROR(ensure(stream, deadline));
  MC_RETURN_IF_ERROR(impl_->insist("making a consumer", deadline, [&](int wait_ms, jsErrCode* code) {
    jsOptions o;
    jsOptions_Init(&o);
    o.Wait = wait_ms;
    jsConsumerConfig config;
    jsConsumerConfig_Init(&config);
    config.Durable = kLanes;
    config.AckPolicy = js_AckExplicit;
    config.AckWait = 5 * kSecond;
    config.MaxDeliver = 3;
    config.MaxAckPending = 10'000;
    config.MaxWaiting = 4096;
    config.FilterSubject = stream.subject.c_str();
    Handle<jsConsumerInfo, jsConsumerInfo_Destroy> info;
    return js_AddConsumer(&info.p, impl_->js, stream.name.c_str(), &config, &o, code);
  }));
  return ok();
}

void NatsLink::ring(const std::string& subject, std::size_t times) {
  // A ring that is lost costs a second: those that wait look by themselves.
  for (std::size_t i = 0; i < times; ++i)
    if (natsConnection_PublishString(impl_->connection, subject.c_str(), "") != NATS_OK) return;
}

bool NatsLink::wait_for_bell(const Stream& stream, double seconds) {
  const base::Deadline deadline = base::Deadline::in(seconds);
  natsSubscription* bell = nullptr;
  {
    std::lock_guard lock(impl_->mutex);
    if (!impl_->idle_bells.empty()) {
      bell = impl_->idle_bells.back();
      impl_->idle_bells.pop_back();
    }
  }
  const auto wait_out = [&] {
    std::this_thread::sleep_for(std::chrono::duration<double>(deadline.remaining()));
    return false;
  };
  jsErrCode code{};
  if (!bell) {
    jsSubOptions o;
    jsSubOptions_Init(&o);
    o.Stream = stream.name.c_str();
    o.Consumer = kLanes;
    jsOptions js_options;
    jsOptions_Init(&js_options);
    js_options.Wait = 1000;
    if (js_PullSubscribe(&bell, impl_->js, stream.subject.c_str(), kLanes, &js_options, &o, &code) != NATS_OK)
      return wait_out();
  }
  natsMsgList list{};
  const natsStatus status =
      natsSubscription_Fetch(&list, bell, 1, std::max(1, deadline.poll_ms(60'000)), &code);
  if (status == NATS_OK && list.Count > 0) (void)natsMsg_Ack(list.Msgs[0], nullptr);
  const bool rang = status == NATS_OK && list.Count > 0;
  natsMsgList_Destroy(&list);
  if (status == NATS_OK || status == NATS_TIMEOUT) {
    std::lock_guard lock(impl_->mutex);
    impl_->idle_bells.push_back(bell);
    return rang;
  }
  natsSubscription_Destroy(bell);
  return wait_out();
}

std::size_t NatsLink::max_payload() const {
  return static_cast<std::size_t>(
      std::max<std::int64_t>(64 << 10, natsConnection_GetMaxPayload(impl_->connection)));
}

}  // namespace musacoder::service
