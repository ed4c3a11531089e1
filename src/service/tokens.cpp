#include "service/tokens.h"

#include <toml++/toml.h>
#include <algorithm>
#include <set>

#include "base/files.h"
#include "base/hash.h"

namespace musacoder::service {
namespace {

Result<Token> token_of(const toml::table& entry, const std::string& where) {
  static const std::set<std::string_view> kKeys = {"name",           "sha256",          "token",       "role",
                                                   "max_unfinished", "jobs_per_minute", "max_priority"};
  for (const auto& [key, value] : entry)
    if (!kKeys.count(key.str()))
      return fail(Code::kInvalidArgument, "{}: unknown key '{}'", where, key.str());
  Token token;
  token.name = entry["name"].value_or(std::string());
  if (token.name.empty() || token.name.size() > 64 ||
      token.name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") !=
          std::string::npos)
    return fail(Code::kInvalidArgument, "{}: `name` has 1 to 64 characters of A-Z a-z 0-9 . _ -", where);
  token.sha256 = entry["sha256"].value_or(std::string());
  if (const auto plain = entry["token"].value<std::string>()) {
    if (plain->size() < 16)
      return fail(Code::kInvalidArgument, "{}: a token has at least 16 characters", where);
    token.sha256 = base::sha256_hex(*plain);
  }
  if (token.sha256.size() != 64 || token.sha256.find_first_not_of("0123456789abcdef") != std::string::npos)
    return fail(Code::kInvalidArgument, "{}: give `sha256` (64 lower-case hex digits) or `token`", where);
  const std::string role = entry["role"].value_or(std::string("client"));
  if (role == "client")
    token.role = Role::kClient;
  else if (role == "worker")
    token.role = Role::kWorker;
  else if (role == "admin")
    token.role = Role::kAdmin;
  else
    return fail(Code::kInvalidArgument, "{}: `role` is client, worker or admin, not '{}'", where, role);
  const std::int64_t unfinished = entry["max_unfinished"].value_or(std::int64_t{1000});
  const double rate = entry["jobs_per_minute"].value_or(0.0);
  const std::int64_t priority = entry["max_priority"].value_or(std::int64_t{100});
  if (unfinished < 0 || rate < 0 || priority < -100 || priority > 100)
    return fail(Code::kInvalidArgument,
                "{}: max_unfinished and jobs_per_minute are not negative, max_priority is -100 to 100",
                where);
  token.max_unfinished = static_cast<std::size_t>(unfinished);
  token.jobs_per_minute = rate;
  token.max_priority = static_cast<int>(priority);
  return token;
}

}  // namespace

Result<TokenSet> TokenSet::load(const std::string& path) {
  MC_ASSIGN_OR_RETURN(const std::string text, base::read_file(path, 4 << 20));
  return parse(text, path);
}

Result<TokenSet> TokenSet::parse(const std::string& toml_text, const std::string& source) {
  toml::table table;
  try {
    table = toml::parse(toml_text, source);
  } catch (const toml::parse_error& error) {
    return fail(Code::kInvalidArgument, "{}:{}: {}", source, error.source().begin.line, error.description());
  }
  TokenSet set;
  std::set<std::string> names;
  for (const auto& [key, value] : table)
    if (key.str() != "token")
      return fail(Code::kInvalidArgument, "{}: unknown key '{}'; tokens stand under [[token]]", source,
                  key.str());
  const toml::array* entries = table["token"].as_array();
  if (!entries) return fail(Code::kInvalidArgument, "{}: no [[token]] in it", source);
  for (std::size_t i = 0; i < entries->size(); ++i) {
    const std::string where = fmt::format("{}: token {}", source, i + 1);
    const toml::table* entry = entries->get(i)->as_table();
    if (!entry) return fail(Code::kInvalidArgument, "{} is not a table", where);
    MC_ASSIGN_OR_RETURN(Token token, token_of(*entry, where));
    if (!names.insert(token.name).second)
      return fail(Code::kInvalidArgument, "{}: the name '{}' stands twice", where, token.name);
    const std::string hash = token.sha256;
    if (!set.tokens_.emplace(hash, std::move(token)).second)
      return fail(Code::kInvalidArgument, "{}: the same token stands twice", where);
  }
  return set;
}

const Token* TokenSet::find(const std::string& bearer) const {
  auto it = tokens_.find(base::sha256_hex(bearer));
  return it == tokens_.end() ? nullptr : &it->second;
}

double Quotas::take(const Token& token, std::size_t jobs, double now) {
  if (token.jobs_per_minute <= 0) return 0;
  std::lock_guard lock(mutex_);
  Bucket& bucket = buckets_[token.name];
  const double capacity = std::max(1.0, token.jobs_per_minute), a_second = token.jobs_per_minute / 60;
  if (bucket.fresh) bucket = {capacity, now, false};
  bucket.level = std::min(capacity, bucket.level + (now - bucket.at) * a_second);
  bucket.at = now;
  const double need = std::min(static_cast<double>(jobs), capacity);
  if (bucket.level + 1e-9 < need) return (need - bucket.level) / a_second;
  bucket.level -= static_cast<double>(jobs);
  return 0;
}

}  // namespace musacoder::service
