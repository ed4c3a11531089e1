#include "ledger.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "canary.h"
#include "cupti_api.h"
#include "service.h"
#include "watch.h"

namespace musacoder::ledger {
namespace {

using nlohmann::json;

class CudaWatcher : public Watcher {
 public:
  json hello() override {
    std::uint32_t version = 0;
    cupti().GetVersion(&version);
    int driver_version = 0;
    if (driver().DriverGetVersion) driver().DriverGetVersion(&driver_version);
    return {{"pid", ::getpid()}, {"cupti", version}, {"driver", driver_version}, {"device", 0}};
  }
  json report() override {
    Watch& watch = Watch::instance();
    const CanaryResult canary = canary_.run(watch);
    json report = watch.take();
    report["canary"] = canary != CanaryResult::kMissing;
    report["context"] = canary != CanaryResult::kNoContext;
    report["missing"] = watch.missing();
    watch.forgive();
    return report;
  }
  json fault() override {
    Watch& watch = Watch::instance();
    canary_.poke(watch);
    const auto seen = watch.fault();
    if (!seen) return nullptr;
    const FaultName name = device_fault(seen->code);
    return {{"kind", name.kind}, {"code", seen->code}, {"name", name.name}, {"kernel", seen->kernel}};
  }
  bool quiet(bool on) override { return Watch::instance().quiet(on); }

 private:
  Canary canary_;
};

void* serve(void* argument) {
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(argument));
  static CudaWatcher* const watcher =
      new CudaWatcher;  // never destroyed: the process may end while this thread runs
  try {
    Service(*watcher).serve(fd);
  } catch (const std::exception& error) {
    remark(std::string("the service stops: ") + error.what(), true);
  }
  ::close(fd);
  return nullptr;
}

int start(int fd, std::string* error) {
  static std::atomic<bool> started{false};
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM) {
    *error = "descriptor " + std::to_string(fd) + " is no stream socket";
    return 1;
  }
  if (started.exchange(true)) {
    *error = "mcl_start was called before in this process";
    return 2;
  }
  const auto failed = [&](int code) {
    started = false;
    return code;
  };
  if (!cupti().load(error)) return failed(3);
  if (!driver().load(error)) return failed(4);
  if (!Watch::instance().start(error)) return failed(5);
  // The thread inherits the mask: signals are the runner's business.
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  pthread_t thread;
  const int code =
      pthread_create(&thread, nullptr, serve, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)));
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (code != 0) {
    *error = std::string("no thread: ") + std::strerror(code);
    return 6;  // CUPTI stays subscribed, unheard
  }
  pthread_setname_np(thread, "mc-ledger");
  pthread_detach(thread);
  return 0;
}

}  // namespace
}  // namespace musacoder::ledger

extern "C" {

int mcl_start(int fd, char* error, size_t n) {
  std::string text;
  int code = 0;
  try {
    code = musacoder::ledger::start(fd, &text);
  } catch (const std::exception& exception) {
    text = exception.what();
    code = 7;
  }
  if (code != 0) musacoder::ledger::remark("cannot start: " + text, true);
  if (error && n > 0) {
    std::strncpy(error, text.c_str(), n - 1);
    error[n - 1] = '\0';
  }
  return code;
}

void mcl_internal(int delta) { musacoder::ledger::Watch::internal(delta); }

void mcl_note(const char* kind, const char* name) {
  if (!kind || !name) return;
  try {
    musacoder::ledger::Watch::instance().book().note(kind, name);
  } catch (const std::exception&) {
    musacoder::ledger::remark("a note was lost", true);
  }
}

int mcl_synchronized(void) {
  if (!musacoder::ledger::cupti().FlushAll) return CUPTI_ERROR_NOT_INITIALIZED;
  return musacoder::ledger::Watch::instance().flush(false);
}
}
