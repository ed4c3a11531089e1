// Verdicts in one SQLite file: written once each, never lost, open to any SQLite tool.
//
//   MC_ASSIGN_OR_RETURN(auto store, store::Store::open("verdicts.db"));
//   MC_RETURN_IF_ERROR(store->put(verdict));
//   auto rows = store->find({.task = "level1/19", .status_class = "ok", .limit = 20});
//
// A verdict's key is the hash of task, candidate, backend, presented GPU, policy and sizes set by hand: putting the same
// one again replaces the row, so that a repeated batch adds nothing; but an infra verdict never replaces a decided one.
// When put() returns ok the row is on disk (WAL, synchronous=FULL): neither kill -9 nor a power cut loses it.
// Several processes and threads may use one file; each Store serialises its own callers.
// Errors: kResourceExhausted (disk full: the verdict was not stored, free space and put it again), kUnavailable (locked
// for longer than 15 s, unwritable), kInvalidArgument (not a database), kUnsupported (written by a newer program).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "judge/verdict.h"

namespace musacoder::store {

struct Query {
  std::string task = {}, candidate_hash = {}, status = {}, status_class = {};   // empty: any
  std::string text = {};                                    // part of task, status, cause or extra; empty: any
  std::int64_t since = 0;                                   // Unix seconds; 0: any
  std::size_t limit = 100, offset = 0;                      // newest first
};

struct StoredVerdict {
  std::string key;
  std::int64_t stored_at = 0;                               // Unix seconds
  judge::Verdict verdict;
  std::string extra;                                        // JSON object of the batch row's other keys, "{}" when none
};

class Store {
 public:
  static Result<std::unique_ptr<Store>> open(const std::string& path);
  ~Store();

  Status put(const judge::Verdict& verdict, const std::string& extra_json = "{}");
  Result<std::optional<StoredVerdict>> get(const std::string& key);
  Result<std::vector<StoredVerdict>> find(const Query& query);
  Result<std::map<std::string, std::size_t>> count_by_status();
  // Calls `use` with every row of the query, newest first, one in memory at a time; limit and offset apply. `use` must not
  // call this Store. Stops at the first error of `use`.
  Status for_each(const Query& query, const std::function<Status(StoredVerdict)>& use);
  // Removes verdicts stored before `unix_time` (with `infra_only`, only those of infra faults) and gives the space back to
  // the file system. Returns how many.
  Result<std::size_t> prune(std::int64_t unix_time, bool infra_only = false);
  // A consistent copy while others read and write. The file is complete or absent. kInvalidArgument when it exists.
  Status backup(const std::string& path);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  explicit Store(std::unique_ptr<Impl> impl);
};

// The idempotency key, 64 hex digits.
std::string verdict_key(const judge::Verdict& verdict);

}  // namespace musacoder::store
