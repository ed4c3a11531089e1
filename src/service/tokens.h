// Bearer tokens with roles and quotas, from a TOML file that holds only their hashes or, for small set-ups,
// the tokens:
//
//   [[token]]
//   name = "trainer-a"                                   # appears in logs and as the jobs' owner
//   sha256 = "9f86d081884c7d65…"                         # of the token: printf %s TOKEN | sha256sum
//   role = "client"                                      # client (default), worker, admin
//   max_unfinished = 1000                                # jobs waiting and running at a time; 0: no limit
//   jobs_per_minute = 0                                  # submissions, with bursts of a minute's worth; 0:
//   no limit max_priority = 100
//
// Errors of load(): kNotFound, kInvalidArgument with the entry. Token sets do not change once loaded; Quotas
// is thread safe.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"

namespace musacoder::service {

enum class Role { kClient, kWorker, kAdmin };

struct Token {
  std::string name = "anonymous", sha256;
  Role role = Role::kAdmin;  // of the one who comes without a token where none are configured
  std::size_t max_unfinished = 0;
  double jobs_per_minute = 0;
  int max_priority = 100;
};

class TokenSet {
 public:
  static Result<TokenSet> load(const std::string& path);
  static Result<TokenSet> parse(const std::string& toml, const std::string& source);
  bool empty() const { return tokens_.empty(); }
  std::size_t size() const { return tokens_.size(); }
  // By the token itself; null when unknown. Looked up by hash, so that timing says nothing about tokens.
  const Token* find(const std::string& bearer) const;

 private:
  std::map<std::string, Token> tokens_;  // by sha256
};

// Submissions a minute, one bucket a token.
class Quotas {
 public:
  // Takes `jobs` from the bucket at time `now` (seconds). 0 when granted, else seconds until it would be.
  // More jobs at once than a minute's worth are granted when the bucket is full, and paid for afterwards.
  double take(const Token& token, std::size_t jobs, double now);

 private:
  struct Bucket {
    double level = 0, at = 0;
    bool fresh = true;
  };
  std::mutex mutex_;
  std::map<std::string, Bucket> buckets_;  // by token name
};

}  // namespace musacoder::service
