// Names that cannot be guessed, from the system's random bytes. Thread safe.
//
//   random_id("l-");        // "l-" and 32 hex digits
#pragma once

#include <string>

namespace musacoder::base {

// `bytes` at most 32; two digits each.
std::string random_hex(std::size_t bytes);
std::string random_id(const std::string& prefix);

}  // namespace musacoder::base
