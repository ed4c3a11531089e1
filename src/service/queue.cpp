#include "service/queue.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fstream>
#include <sstream>

#include "base/files.h"
#include "service/nats_queue.h"

namespace musacoder::service {
namespace {

std::string first_line(const char* path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// Field 22 of /proc/PID/stat: start time in clock ticks since boot; "" when there is no such process.
std::string start_time(const std::string& pid) {
  const std::string stat = first_line(("/proc/" + pid + "/stat").c_str());
  const auto after_name = stat.rfind(')');
  if (after_name == std::string::npos) return "";
  std::istringstream fields(stat.substr(after_name + 1));
  std::string field;
  for (int i = 3; i <= 22 && fields >> field; ++i)
    if (i == 3 && field == "Z") return "";  // a zombie does no work
  return field;
}

std::string pid_namespace() {
  std::array<char, 64> link{};
  const ssize_t n = readlink("/proc/self/ns/pid", link.data(), link.size() - 1);
  std::string digits;
  for (ssize_t i = 0; i < n; ++i)
    if (link[static_cast<std::size_t>(i)] >= '0' && link[static_cast<std::size_t>(i)] <= '9')
      digits += link[static_cast<std::size_t>(i)];
  return digits;
}

// "host/boot/namespace": what two processes share that see each other's process numbers.
const std::string& here() {
  static const std::string text = [] {
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    std::string name(host.data());
    for (char& c : name)
      if (c == '/') c = '_';
    return fmt::format("{}/{}/{}", name, first_line("/proc/sys/kernel/random/boot_id").substr(0, 8),
                       pid_namespace());
  }();
  return text;
}

}  // namespace

std::string worker_identity(int lane) {
  const std::string pid = std::to_string(getpid());
  return fmt::format("{}/{}/{}/{}", here(), pid, start_time(pid), lane);
}

bool worker_is_gone(const std::string& worker) {
  const std::string prefix = here() + "/";
  if (worker.compare(0, prefix.size(), prefix) != 0) return false;
  const std::string rest = worker.substr(prefix.size());
  const auto slash = rest.find('/');
  const auto last = rest.rfind('/');
  if (slash == std::string::npos || last == slash) return false;
  const std::string pid = rest.substr(0, slash), start = rest.substr(slash + 1, last - slash - 1);
  long number = 0;
  const auto parsed = std::from_chars(pid.data(), pid.data() + pid.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != pid.data() + pid.size() || number <= 0 || start.empty())
    return false;
  return start_time(pid) != start;
}

Result<std::unique_ptr<JobQueue>> open_queue(const std::string& url, const QueueConfig& config) {
  if (url == "memory") return make_memory_queue(config);
  constexpr std::string_view kSqlite = "sqlite:";
  if (url.rfind(kSqlite, 0) == 0 && url.size() > kSqlite.size())
    return open_sqlite_queue(url.substr(kSqlite.size()), config);
  if (url.rfind("nats://", 0) == 0) return open_nats_queue(url, config);
  return fail(Code::kInvalidArgument,
              "'{}' is no queue; give memory, sqlite:PATH or nats://HOST:PORT[/PREFIX]", url);
}

}  // namespace musacoder::service
