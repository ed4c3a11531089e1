#include "train/run/stop_signal.h"

namespace musacoder::train {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};
volatile std::sig_atomic_t asked_ = 0;

void note(int) { asked_ = 1; }

}  // namespace

StopSignal::StopSignal() {
  asked_ = 0;
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (int i = 0; i < 2; ++i) ::sigaction(kSignals[i], &action, &before_[i]);
}

StopSignal::~StopSignal() {
  for (int i = 0; i < 2; ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
}

bool StopSignal::asked() { return asked_ != 0; }

}  // namespace musacoder::train
