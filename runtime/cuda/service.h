// Protocol C: the judge asks, one JSON object a line, and this answers, from a thread of its own.
//
//   → {"op":"hello","version":1}                 ←
//   {"ok":true,"pid":7,"cupti":130001,"driver":13000,"device":0} →
//   {"op":"begin","trial":0,"flags":["kernels"]} ← {"ok":true,"report":{…since the last end or outside…}} →
//   {"op":"end"}                               ← {"ok":true,"report":{…}} → {"op":"outside"} ←
//   {"ok":true,"report":{…}}; inside a window nothing is taken → {"op":"fault"}                             ←
//   {"ok":true,"fault":null|{"kind","code","name","kernel"}} → {"op":"quiet","on":true}                   ←
//   {"ok":true} ← {"ok":false,"message":…} to what is out of order
//
// A report is that of Book::take() with "canary": true when CUPTI was seen to work (canary.h), and "context":
// false while the process has not touched the GPU. "missing": launches whose records did not come (a remark;
// lost records are "dropped"). A report that is asked for while quiet has "canary":false.
//
// handle() needs no socket, so that the order of operations is tested without hardware: Watcher stands for
// CUPTI.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace musacoder::ledger {

class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual nlohmann::json hello() = 0;   // pid, cupti, driver, device
  virtual nlohmann::json report() = 0;  // flushes, looks for the canary, takes the book
  virtual nlohmann::json fault() = 0;   // null or an object
  virtual bool quiet(bool on) = 0;
};

class Service {
 public:
  explicit Service(Watcher& watcher) : watcher_(watcher) {}
  std::string handle(std::string_view line);  // the answer, without a line end; never throws
  // Serves until the peer is gone, sends more than kMaxLine bytes in a line, or the socket fails. Closes
  // nothing.
  void serve(int fd);
  static constexpr std::size_t kMaxLine = 64 << 10;

 private:
  nlohmann::json answer(const nlohmann::json& request);
  Watcher& watcher_;
  bool open_ = false;
};

}  // namespace musacoder::ledger
