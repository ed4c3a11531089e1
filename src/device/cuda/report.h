// Reads the ledger's answers (protocol C, runtime/cuda/service.h) with suspicion: every field's type and
// range, every list's length. The messages name the field that is wrong. kInvalidArgument is the only error.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "device/device.h"

namespace musacoder::device {

inline constexpr std::size_t kMaxLedgerItems = 4096;  // of one list

// {"ok":true,"pid":…,"cupti":…,"driver":…,"device":…}
Status check_hello(const nlohmann::json& reply);
// {"ok":true,"report":{…}}. `canary`: the library saw its own mark. `out` is filled in part when the reply is
// wrong.
Status read_report(const nlohmann::json& reply, WindowReport& out, bool& canary);
// {"ok":true,"fault":null|{…}}
Status read_fault(const nlohmann::json& reply, std::optional<Fault>& out);

// "cublasLt" of "libcublasLt.so.13"
std::string library_name(std::string_view module);
// At most 512 bytes, without control characters.
std::string printable(std::string_view text);

}  // namespace musacoder::device
