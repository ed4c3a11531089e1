// The ledger of a window: what the device saw between begin and end, bounded in size whatever the client does.
//
//   ledger.begin(options);
//   ledger.launch(info.demangled, "candidate.so", config, outcome);
//   WindowReport report = ledger.end();
//
// Between windows the same facts are collected for take_outside() and the next begin(), except the operators of torch, which
// may run there. The unread launch error and the protocol error stay until a window's end sees them. Not thread safe; the
// server's device lock guards it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "vgpu/server/control.h"

namespace musacoder::vgpu {

class Ledger {
 public:
  WindowReport begin(const WindowOptions& options);   // returns take_outside()
  WindowReport end();
  WindowReport take_outside();   // since the last window's end or the last take_outside(); empty inside a window
  bool open() const { return open_; }
  const WindowOptions& options() const { return options_; }

  void launch(const std::string& kernel, const std::string& module, const LaunchConfig& config, const LaunchOutcome& outcome);
  void host_to_device(std::uint64_t bytes, bool creation);
  void device_to_host(std::uint64_t bytes) { report_.d2h_bytes += bytes; }
  void device_to_device(std::uint64_t bytes) { report_.d2d_bytes += bytes; }
  void set(std::uint64_t bytes) { report_.memset_bytes += bytes; }
  void fault(const Fault& fault);
  void launch_error(std::string text);   // a launch was refused; unread until launch_error_read()
  void launch_error_read() { unread_.clear(); }
  void protocol_error(std::string text);
  void printf_output(std::string_view text);
  // kinds "refused", "booked", "vendor", "unsupported"; false for any other.
  bool report(std::string_view kind, std::string_view text);

 private:
  using LaunchKey = std::tuple<std::string, std::string, std::array<std::uint32_t, 6>>;
  void clear();

  bool open_ = false;
  WindowOptions options_;
  WindowReport report_;
  std::map<LaunchKey, std::size_t> launch_index_;
  std::string unread_, protocol_error_;
};

}  // namespace musacoder::vgpu
