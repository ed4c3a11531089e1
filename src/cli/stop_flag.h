// Ctrl-C as a flag: the first one lets a command end in order, the second ends it.
//
//   StopFlag stop;
//   while (!stop.raised()) work();
#pragma once

#include <atomic>
#include <csignal>

namespace musacoder::cli {

class StopFlag {
 public:
  StopFlag() {
    flag() = false;
    std::signal(SIGINT, raise);
    std::signal(SIGTERM, raise);
  }
  ~StopFlag() {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
  }
  bool raised() const { return flag(); }

 private:
  static std::atomic<bool>& flag() {
    static std::atomic<bool> raised{false};
    return raised;
  }
  static void raise(int signal) {
    flag() = true;
    std::signal(signal, SIG_DFL);
  }
};

}  // namespace musacoder::cli
