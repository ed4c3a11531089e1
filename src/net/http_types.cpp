#include "net/http_types.h"

#include <charconv>
#include <cmath>

namespace musacoder::net {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

ApiResult<double> number_of(const std::string& text, const char* name, double low, double high) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || !std::isfinite(value) ||
      value < low || value > high)
    return api_error(400,
                     fmt::format("query parameter {} is a number from {} to {}, not '{}'", name, low, high,
                                 text.substr(0, 64)),
                     name);
  return value;
}

// "127.0.0.1:8811" → "127.0.0.1", "[::1]:8811" → "::1".
std::string host_name(const std::string& host) {
  if (!host.empty() && host[0] == '[')
    return host.substr(1, host.find(']') == std::string::npos ? 0 : host.find(']') - 1);
  return host.substr(0, host.find(':'));
}

bool is_loopback_name(const std::string& name) {
  return name == "localhost" || name == "::1" || name == "ip6-localhost" || name.rfind("127.", 0) == 0;
}

}  // namespace

tl::unexpected<ApiError> api_error(int status, std::string message, std::string field) {
  return tl::unexpected<ApiError>(
      ApiError{status, api_code(status), std::move(message), std::move(field), 0, std::nullopt});
}

const char* api_code(int status) {
  switch (status) {
    case 400:
    case 415:
    case 422:
      return "INVALID_ARGUMENT";
    case 401:
      return "UNAUTHENTICATED";
    case 403:
      return "PERMISSION_DENIED";
    case 404:
      return "NOT_FOUND";
    case 405:
      return "METHOD_NOT_ALLOWED";
    case 408:
      return "DEADLINE_EXCEEDED";
    case 409:
      return "CONFLICT";
    case 413:
    case 431:
      return "TOO_LARGE";
    case 429:
      return "RESOURCE_EXHAUSTED";
    case 503:
      return "UNAVAILABLE";
    default:
      return "INTERNAL";
  }
}

ApiError api_error_of(const Error& error) {
  ApiError result;
  switch (error.code) {
    case Code::kInvalidArgument:
      result.status = 422;
      break;
    case Code::kNotFound:
      result.status = 404;
      break;
    case Code::kUnavailable:
    case Code::kResourceExhausted:
    case Code::kDeadlineExceeded:
      result.status = 503;
      result.retry_after_s = 2;
      break;
    default:
      result.status = 500;
  }
  result.code = error.code == Code::kResourceExhausted ? "RESOURCE_EXHAUSTED" : api_code(result.status);
  result.message = error.message;
  return result;
}

std::string Request::query(std::string_view name) const {
  for (const auto& [key, value] : query_items)
    if (key == name) return value;
  return "";
}
bool Request::has_query(std::string_view name) const {
  for (const auto& [key, value] : query_items)
    if (key == name) return true;
  return false;
}

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return std::nullopt;
    out += c;
  }
  return out;
}

ApiResult<Request> parse_target(std::string_view target) {
  Request request;
  if (target.empty() || target[0] != '/')
    return api_error(400, "the request target must be a path that begins with /");
  if (const auto hash = target.find('#'); hash != std::string_view::npos) target = target.substr(0, hash);
  const auto mark = target.find('?');
  auto path = percent_decode(target.substr(0, mark), false);
  if (!path) return api_error(400, "the path has a broken percent escape or a control character");
  if (path->find('\\') != std::string::npos) return api_error(400, "the path holds a backslash");
  for (std::size_t begin = 1; begin <= path->size();) {
    const std::size_t end = std::min(path->find('/', begin), path->size());
    const std::string_view segment = std::string_view(*path).substr(begin, end - begin);
    const bool last = end == path->size();
    if (segment == "." || segment == ".." || (segment.empty() && !(last && begin == 1)))
      return api_error(400, "the path holds an empty or a dot segment");
    begin = end + 1;
  }
  request.path = std::move(*path);
  if (mark == std::string_view::npos) return request;
  std::string_view rest = target.substr(mark + 1);
  while (!rest.empty()) {
    const auto amp = rest.find('&');
    const std::string_view item = rest.substr(0, amp);
    rest = amp == std::string_view::npos ? std::string_view() : rest.substr(amp + 1);
    if (item.empty()) continue;
    const auto equals = item.find('=');
    auto name = percent_decode(item.substr(0, equals), true);
    auto value =
        percent_decode(equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1), true);
    if (!name || !value)
      return api_error(400, "the query has a broken percent escape or a control character");
    request.query_items.emplace_back(std::move(*name), std::move(*value));
    if (request.query_items.size() > 64) return api_error(400, "more than 64 query parameters");
  }
  return request;
}

ApiResult<double> query_number(const Request& request, const char* name, double otherwise, double low,
                               double high) {
  if (!request.has_query(name)) return otherwise;
  return number_of(request.query(name), name, low, high);
}

ApiResult<std::size_t> query_count(const Request& request, const char* name, std::size_t otherwise,
                                   std::size_t low, std::size_t high) {
  auto value = query_number(request, name, static_cast<double>(otherwise), static_cast<double>(low),
                            static_cast<double>(high));
  if (!value) return tl::unexpected(value.error());
  if (*value != std::floor(*value))
    return api_error(400, fmt::format("query parameter {} is a whole number", name), name);
  return static_cast<std::size_t>(*value);
}

Reply json_reply(int status, std::string body) {
  Reply reply;
  reply.status = status;
  reply.body = std::move(body);
  return reply;
}

std::string bearer_of(const Request& request) {
  constexpr std::string_view kScheme = "bearer ";
  if (request.authorization.size() > kScheme.size()) {
    std::string scheme = request.authorization.substr(0, kScheme.size());
    for (char& c : scheme) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (scheme == kScheme) return request.authorization.substr(kScheme.size());
  }
  return request.upgrade ? request.query("access_token") : "";
}

std::optional<Foreign> find_foreign(const Request& request, bool has_tokens) {
  if (!has_tokens && !is_loopback_name(host_name(request.host)))
    return Foreign{"host", api_error(403, "without tokens only a loopback Host is served").value()};
  if (!request.origin.empty() && request.origin != "http://" + request.host &&
      request.origin != "https://" + request.host)
    return Foreign{"origin", api_error(403, "requests from the pages of other sites are refused").value()};
  return std::nullopt;
}

}  // namespace musacoder::net
