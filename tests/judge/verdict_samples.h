// Verdicts for tests: one for every status of the table, filled as the judge fills them, and random ones.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "judge/verdict.h"

namespace musacoder::judge::samples {

// A candidate file whose lines the samples refer to.
std::string candidate_source();

// The status with every part filled that the judge fills for its class. `task` and `seed` vary names and hashes.
Verdict verdict_of(const std::string& status, const std::string& task = "level1/19", std::uint64_t seed = 1);

// One for every row of status_table(), "*" replaced by an example.
std::vector<Verdict> every_status();

// Every field set to something, hostile text included; no two seeds alike.
Verdict random_verdict(std::uint64_t seed);

}  // namespace musacoder::judge::samples
