// Faults put into a working candidate, one at a time, as people and models make them: what stage 3's repair rows, reviews and
// multi-turn conversations begin with.
//
//   for (const Mutant& mutant : mutants(candidate_py, seed, 8)) {
//     Verdict verdict = judge(mutant.file);                 // what kind of fault it really is, MooreEval says
//     if (verdict.status == "ok") …                         // it changed nothing that shows: dropped, and counted
//   }
//
// Candidates are Python files with their sources in strings. Places are found in the text (comments and strings that are no
// source left aside), so a fault may also hit where it does no harm. The same file and seed give the same mutants.
// To add a kind: a line of the table in mutation.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace musacoder::synth {

struct Mutant {
  std::string kind;           // "bounds_removed", …: mutation_kinds()
  std::string file;           // the candidate with the fault
  std::string before, after;  // the text that was replaced, and by what, white space shortened
  int line = 0;               // of the candidate's file, 1-based
  std::string fault;          // what is wrong there, one sentence
};

struct MutationKind {
  std::string_view name;
  std::string_view about;     // what it stands for: bounds, stride, barrier, race, axis, init, dtype, launch, legality, compile, formula, interface
};
const std::vector<MutationKind>& mutation_kinds();

// At most `most`, as many kinds as there are first; fewer where the file has fewer places. Files differ from each other and
// from `file`.
std::vector<Mutant> mutants(const std::string& file, std::uint64_t seed, std::size_t most);

// The same for ways to be slow that leave the result right: "many_launches", "tiny_blocks", "needless_synchronisation", "uncoalesced",
// "atomics". Which of them still verify, the verifier says.
std::vector<Mutant> slow_variants(const std::string& file, std::uint64_t seed, std::size_t most);

// Every place of one kind.
std::vector<Mutant> mutants_of_kind(const std::string& file, std::string_view kind);

}  // namespace musacoder::synth
