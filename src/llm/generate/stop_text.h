// Text as it may be shown while stop texts are watched for: what could be the beginning of one waits.
//
//   StopText text({"\n\n", "END"});
//   show(text.put("a line\n"));     // "a line": the line feed might be half of the stop
//   show(text.put("more E"));       // "\nmore "
//   show(text.put("ND!"));          // "" and text.stopped(): nothing from the stop on is given
//   show(text.end());               // what waited, if no stop was found
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace musacoder::llm {

class StopText {
 public:
  explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  std::string put(std::string_view piece);
  std::string end();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string waiting_;
  bool stopped_ = false;
};

}  // namespace musacoder::llm
