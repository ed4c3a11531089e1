#include "llm/generate/stop_text.h"

#include <algorithm>
#include <utility>

namespace musacoder::llm {

std::string StopText::put(std::string_view piece) {
  if (stopped_) return {};
  waiting_ += piece;
  std::size_t found = std::string::npos, certain = waiting_.size();
  for (const std::string& stop : stops_) {
    found = std::min(found, waiting_.find(stop));
    for (std::size_t length = std::min(stop.size() - 1, waiting_.size()); length > 0; --length)
      if (std::string_view(waiting_).ends_with(std::string_view(stop).substr(0, length))) {
        certain = std::min(certain, waiting_.size() - length);
        break;
      }
  }
  stopped_ = found != std::string::npos;
  std::string out = waiting_.substr(0, stopped_ ? found : certain);
  waiting_.erase(0, stopped_ ? waiting_.size() : certain);
  return out;
}

std::string StopText::end() { return std::exchange(waiting_, {}); }

}  // namespace musacoder::llm
