#include "net/json_fields.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_lines.h"

namespace musacoder::net {
namespace {

using nlohmann::json;

const json* member(const json& object, const char* key) {
  auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

// Of valid UTF-8, which parsed JSON is.
std::size_t characters(const std::string& text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

}  // namespace

std::string dump_json(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

ApiResult<json> parse_text(const std::string& text) {
  auto parsed = base::parse_json(text);
  if (!parsed)
    return api_error(
        400, fmt::format("the body is not JSON that can be read: {}", parsed.error().message.substr(0, 200)));
  return std::move(*parsed);
}

ApiResult<json> parse_body(const Request& request) {
  std::string type = request.content_type.substr(0, request.content_type.find(';'));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  for (char& c : type) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (!type.empty() && type != "application/json")
    return api_error(415, fmt::format("the body is '{}'; send application/json", type.substr(0, 64)));
  return parse_text(request.body);
}

ApiResult<std::optional<std::string>> text_field(const json& object, const char* key,
                                                 std::size_t max_characters) {
  const json* value = member(object, key);
  if (!value) return std::optional<std::string>();
  if (!value->is_string()) return api_error(422, fmt::format("`{}` is a string", key), key);
  const auto& text = value->get_ref<const std::string&>();
  if (characters(text) > max_characters)
    return api_error(
        422,
        fmt::format("`{}` has {} characters, at most {} are taken", key, characters(text), max_characters),
        key);
  return std::optional<std::string>(text);
}

ApiResult<std::optional<double>> number_field(const json& object, const char* key, double low, double high) {
  const json* value = member(object, key);
  if (!value) return std::optional<double>();
  if (!value->is_number()) return api_error(422, fmt::format("`{}` is a number", key), key);
  const double number = value->get<double>();
  if (!(number >= low && number <= high))
    return api_error(422, fmt::format("`{}` lies from {} to {}", key, low, high), key);
  return std::optional<double>(number);
}

ApiResult<std::optional<std::int64_t>> integer_field(const json& object, const char* key, std::int64_t low,
                                                     std::int64_t high) {
  MC_API_ASSIGN_OR_RETURN(const auto number,
                          number_field(object, key, static_cast<double>(low), static_cast<double>(high)));
  if (!number) return std::optional<std::int64_t>();
  if (*number != std::floor(*number)) return api_error(422, fmt::format("`{}` is a whole number", key), key);
  return std::optional<std::int64_t>(static_cast<std::int64_t>(*number));
}

ApiResult<std::optional<bool>> bool_field(const json& object, const char* key) {
  const json* value = member(object, key);
  if (!value) return std::optional<bool>();
  if (!value->is_boolean()) return api_error(422, fmt::format("`{}` is true or false", key), key);
  return std::optional<bool>(value->get<bool>());
}

}  // namespace musacoder::net
