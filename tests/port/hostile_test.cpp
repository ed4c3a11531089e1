// Texts that are made to be slow. A search that looks at the rest of the text again and again would take
// minutes, and the test's time limit would end it.
#include "support.h"

namespace musacoder::port {
namespace {

std::string times(std::string_view piece, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += piece;
  return text;
}

TEST(Hostile, TextsMadeToBeSlow) {
  constexpr std::size_t kBytes = 1 << 18;
  for (const char* piece : {"(cpp_sources=",
                            "load_inline(",
                            "f'''{",
                            "f\"{f'{",
                            "a:b=cpp_sources=a,",
                            "'''",
                            "\\",
                            "{",
                            "#",
                            "\"",
                            "'x' ",
                            "x.cuda(",
                            "```\n",
                            "__shfl_sync(",
                            "/*",
                            "R\"(",
                            "R\"x(",
                            "#define a(",
                            "cuda::",
                            "torch.",
                            "$",
                            "${",
                            "\xff"})
    for (const Language language : {Language::kCpp, Language::kPython, Language::kBuild, Language::kAnswer})
      (void)ported(times(piece, kBytes), language);
  for (const char* piece : {"a/", "a.b/", "cuda:", "cuda", "a-"})
    (void)rename_words(table(), times(piece, kBytes), Dialect::kMusa);
  // Assignments that name each other from the end to the beginning.
  std::string chain;
  for (int i = 0; i < 30000; ++i) chain += fmt::format("v{} = v{}\n", i, i + 1);
  (void)ported(chain + "load_inline('m', v0)\n", Language::kPython);
  SUCCEED();
}

}  // namespace
}  // namespace musacoder::port
