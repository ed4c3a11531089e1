#include "sandbox/c_api.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>

#include "sandbox/enter.h"

namespace {

int answer(const std::string& text, int code, char* report, size_t size) {
  if (report && size > 0) {
    size_t n = std::min(text.size(), size - 1);
    std::memcpy(report, text.data(), n);
    report[n] = 0;
  }
  return code;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int musacoder_sandbox_enter(const char* policy_json, char* report, size_t size) {
  using namespace musacoder::sandbox;
  try {
    auto policy = policy_from_json(policy_json ? policy_json : "{}");
    if (!policy) return answer(policy.error().message, -1, report, size);
    Report done;
    auto status = enter(*policy, done);
    if (!status) return answer(status.error().message, -1, report, size);
    return answer(to_json(done), 0, report, size);
  } catch (const std::exception& error) {
    return answer(error.what(), -1, report, size);
  }
}

extern "C" __attribute__((visibility("default"))) int musacoder_sandbox_probe(char* report, size_t size) {
  try {
    auto done = musacoder::sandbox::probe();
    if (!done) return answer(done.error().message, -1, report, size);
    return answer(musacoder::sandbox::to_json(*done), 0, report, size);
  } catch (const std::exception& error) {
    return answer(error.what(), -1, report, size);
  }
}
