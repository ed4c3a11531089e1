// Status and Result<T>: how every module border reports failure.
//
//   Result<int> parse_port(std::string_view text) {
//     ...
//     return fail(Code::kInvalidArgument, "port '{}' is not a number; give 1..65535", text);
//   }
//   MC_ASSIGN_OR_RETURN(int port, parse_port(text));
//
// Result<T> is tl::expected, whose members have the names of std::expected, so a later C++23 is a rename.
// Exceptions never cross a module border; they are adapted inside a .cpp.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace musacoder {

// A handful of codes. Callers branch on the code and show the message.
enum class Code {
  kInvalidArgument,   // the caller's or user's input is wrong; the message says what to give instead
  kNotFound,          // a file, id or symbol does not exist
  kUnsupported,       // understood, but this build or backend cannot do it
  kDeadlineExceeded,  // a time limit was reached and the work was stopped
  kResourceExhausted, // memory, disk, processes or descriptors ran out
  kUnavailable,       // a process or device is gone; trying again may help
  kInternal,          // a bug or an unexpected state of the system
};

// Upper-case name of a code, e.g. "NOT_FOUND".
const char* code_name(Code code);

struct Error {
  Code code = Code::kInternal;
  std::string message;  // what happened, where, and what to try
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline Status ok() { return {}; }

template <typename... Args>
tl::unexpected<Error> fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

}  // namespace musacoder

#define MC_CONCAT_INNER(a, b) a##b
#define MC_CONCAT(a, b) MC_CONCAT_INNER(a, b)

// Evaluates an expression of type Status or Result<T>; returns its error from the enclosing function.
#define MC_RETURN_IF_ERROR(expr)                                              \
  do {                                                                        \
    auto mc_status = (expr);                                                  \
    if (!mc_status) return tl::unexpected<::musacoder::Error>(mc_status.error()); \
  } while (false)

// MC_ASSIGN_OR_RETURN(auto x, f()): declares x from a Result or returns its error.
#define MC_ASSIGN_OR_RETURN(lhs, expr) MC_ASSIGN_OR_RETURN_IMPL(MC_CONCAT(mc_result_, __LINE__), lhs, expr)
#define MC_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr)                                \
  auto tmp = (expr);                                                            \
  if (!tmp) return tl::unexpected<::musacoder::Error>(tmp.error());             \
  lhs = std::move(*tmp)
