// Candidates are written by models: any bytes are ported or refused, and what is said to be reversible comes
// back.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "port/port.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace musacoder::port;
  static const RenameTable table = [] {
    auto loaded = RenameTable::load(std::string(MC_SOURCE_DIR) + "/runtime/musa/renames");
    if (!loaded) std::abort();
    return std::move(*loaded);
  }();
  if (size == 0) return 0;
  // The first byte chooses language, direction and options.
  const auto language = data[0] & 32 ? Language::kAnswer : static_cast<Language>(data[0] & 3);
  const Dialect to = data[0] & 4 ? Dialect::kCuda : Dialect::kMusa;
  const PortOptions options{.in_strings = (data[0] & 8) != 0, .in_comments = (data[0] & 16) != 0};
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto there = port_text(table, text, language, to, options);
  if (!there) {
    if (text.find('\0') == std::string_view::npos) std::abort();
    return 0;
  }
  if (std::count(there->text.begin(), there->text.end(), '\n') != std::count(text.begin(), text.end(), '\n'))
    std::abort();
  const auto twice = port_text(table, there->text, language, to, options);
  const bool marks = text.find("MUSACODER_PORT_KEEP") != std::string_view::npos;  // spent on the way back
  if (!twice || (twice->text != there->text && !marks)) std::abort();
  const auto back = port_text(table, there->text, language, other(to), options);
  if (!back || (there->reversible() && back->text != text)) std::abort();
  return 0;
}
