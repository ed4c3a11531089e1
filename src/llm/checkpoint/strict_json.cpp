#include "llm/checkpoint/strict_json.h"

#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>
#include <vector>

namespace musacoder::llm {
namespace {

using Json = nlohmann::ordered_json;

// Builds the value from the parser's events. Keys are appended without nlohmann's linear search for an equal one; a set
// beside each open object finds those.
class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(int max_depth) : max_depth_(max_depth) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool key(string_t& value) override {
    if (!keys_.back().insert(value).second) {
      problem = "key '" + value.substr(0, 200) + "' is given twice";
      return false;
    }
    key_ = std::move(value);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    std::string text = error.what();
    if (const auto at = text.find("parse error"); at != std::string::npos) text = text.substr(at);
    problem = "not JSON at byte " + std::to_string(position) + ": " + text.substr(0, 300);
    return false;
  }

  Json root;
  std::string problem;

 private:
  Json* place(Json value) {
    if (open_.empty()) {
      root = std::move(value);
      return &root;
    }
    if (open_.back()->is_array()) {
      auto& array = open_.back()->get_ref<Json::array_t&>();
      array.push_back(std::move(value));
      return &array.back();
    }
    auto& object = open_.back()->get_ref<Json::object_t&>();
    object.push_back({std::move(key_), std::move(value)});
    return &object.back().second;
  }
  bool put(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (static_cast<int>(open_.size()) >= max_depth_) {
      problem = "nested deeper than " + std::to_string(max_depth_) + " levels";
      return false;
    }
    open_.push_back(place(std::move(value)));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  int max_depth_;
  std::vector<Json*> open_;   // a container grows only while it is the last one, so the pointers to its elders stay good
  std::vector<std::unordered_set<std::string>> keys_;
  std::string key_;
};

}  // namespace

Result<Json> parse_strict_json(std::string_view text, std::string_view where, int max_depth) {
  Builder builder(max_depth);
  if (!Json::sax_parse(text.begin(), text.end(), &builder))
    return fail(Code::kInvalidArgument, "{}: {}", where, builder.problem.empty() ? "not JSON" : builder.problem);
  return std::move(builder.root);
}

}  // namespace musacoder::llm
