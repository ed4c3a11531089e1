#include "service.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <nlohmann/json.hpp>

#include "book.h"

namespace musacoder::ledger {

using nlohmann::json;

namespace {

json refuse(const std::string& why) { return {{"ok", false}, {"message", why}}; }

json empty_report() {
  Book book;
  json report = book.take();
  report["canary"] = true;
  report["context"] = true;
  return report;
}

bool send_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace

json Service::answer(const json& request) {
  if (!request.is_object()) return refuse("a request is a JSON object");
  const auto op = request.find("op");
  if (op == request.end() || !op->is_string()) return refuse("a request has an \"op\"");
  const std::string name = op->get<std::string>();
  if (name == "hello") {
    if (request.value("version", 0) != 1) return refuse("this library speaks version 1");
    json reply = watcher_.hello();
    reply["ok"] = true;
    return reply;
  }
  if (name == "begin") {
    if (open_) return refuse("a window is open already");
    json report = watcher_.report();
    open_ = true;
    return {{"ok", true}, {"report", std::move(report)}};
  }
  if (name == "end") {
    if (!open_) return refuse("no window is open");
    open_ = false;
    return {{"ok", true}, {"report", watcher_.report()}};
  }
  if (name == "outside") return {{"ok", true}, {"report", open_ ? empty_report() : watcher_.report()}};
  if (name == "fault") return {{"ok", true}, {"fault", watcher_.fault()}};
  if (name == "quiet") {
    const auto on = request.find("on");
    if (on == request.end() || !on->is_boolean()) return refuse("quiet needs \"on\": true or false");
    return watcher_.quiet(on->get<bool>()) ? json{{"ok", true}} : refuse("CUPTI did not switch its records");
  }
  return refuse("unknown op");
}

std::string Service::handle(std::string_view line) {
  try {
    const json request = json::parse(line, nullptr, false);
    if (request.is_discarded()) return R"({"ok":false,"message":"not JSON"})";
    return answer(request).dump(-1, ' ', false, json::error_handler_t::replace);
  } catch (const std::exception& error) {
    return refuse(clean(error.what())).dump(-1, ' ', false, json::error_handler_t::replace);
  }
}

void Service::serve(int fd) {
  std::string buffer;
  char chunk[4096];
  for (;;) {
    const ssize_t n = ::read(fd, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    buffer.append(chunk, static_cast<std::size_t>(n));
    for (std::size_t end; (end = buffer.find('\n')) != std::string::npos;) {
      const std::string reply = handle(std::string_view(buffer).substr(0, end)) + "\n";
      buffer.erase(0, end + 1);
      if (!send_all(fd, reply)) return;
    }
    if (buffer.size() > kMaxLine) return;
  }
}

}  // namespace musacoder::ledger
