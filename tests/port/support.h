// What the tests of src/port share: the tables of this checkout, and porting that must succeed.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "port/port.h"

namespace musacoder::port {

inline const RenameTable& table() {
  static const RenameTable loaded = [] {
    auto read = RenameTable::load(std::string(MC_SOURCE_DIR) + "/runtime/musa/renames");
    if (!read) ADD_FAILURE() << read.error().message;
    return read ? std::move(*read) : RenameTable();
  }();
  return loaded;
}

inline Ported ported(std::string_view text, Language language, Dialect to = Dialect::kMusa,
                     const PortOptions& options = {}) {
  auto result = port_text(table(), text, language, to, options);
  if (!result) ADD_FAILURE() << result.error().message;
  return result ? std::move(*result) : Ported{};
}

inline std::string cpp(std::string_view text, Dialect to = Dialect::kMusa) {
  return ported(text, Language::kCpp, to).text;
}
inline std::string python(std::string_view text, Dialect to = Dialect::kMusa) {
  return ported(text, Language::kPython, to).text;
}

// There and back, and there twice.
inline void expect_round_trip(std::string_view text, Language language, const std::string& where) {
  const Ported there = ported(text, language);
  EXPECT_EQ(ported(there.text, language, Dialect::kCuda).text, text) << where;
  EXPECT_EQ(ported(there.text, language).text, there.text) << where << ": porting twice";
}

}  // namespace musacoder::port
