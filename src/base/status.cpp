#include "base/status.h"

namespace musacoder {

const char* code_name(Code code) {
  switch (code) {
    case Code::kInvalidArgument: return "INVALID_ARGUMENT";
    case Code::kNotFound: return "NOT_FOUND";
    case Code::kUnsupported: return "UNSUPPORTED";
    case Code::kDeadlineExceeded: return "DEADLINE_EXCEEDED";
    case Code::kResourceExhausted: return "RESOURCE_EXHAUSTED";
    case Code::kUnavailable: return "UNAVAILABLE";
    case Code::kInternal: return "INTERNAL";
  }
  return "UNKNOWN";
}

}  // namespace musacoder
