// Kernels in which a thread, a warp or a block walks over the elements of a row: reductions, softmax, normalisations. A row is what belongs to
// one combination of the axes that stay; its elements are those of the reduced axes.
//
//   RowProgram p{.domain = &domain, .phases = {{maximum_of("peak", "VALUE"), ""}, {sum_of(…), ""}}};
//   p.load = [&](const Coordinates& at, const std::string& local) { … };      // statements that leave the element in `local`
//   p.each = [&](…) { … };                                                    // what is written for each element; or
//   p.row = [&](…) { … };                                                     // what is written once a row
//   write_rows(p, {.by = RowThreads::kWarp}, unit, writer);
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "synth/teacher/domain.h"
#include "synth/teacher/reducer.h"
#include "synth/teacher/unit_text.h"

namespace musacoder::synth {

enum class RowThreads {
  kThread,       // a thread a row
  kWarp,         // a warp a row, shuffles
  kBlockTree,    // a block a row, tree in shared memory
  kBlockShuffle, // a block a row, shuffles within warps and shared memory between them
};

struct Phase {
  Reducer reducer;
  std::string after;  // statements once the state is the row's: "const float mean = total / COUNT;\n"
};

struct RowProgram {
  const Domain* domain = nullptr;
  std::vector<Phase> phases;
  // Statements for the element at the domain's coordinates (`coordinates` by axis; `flat` the index in the row): result in `*value`, text
  // returned.
  std::function<Result<std::string>(const std::vector<std::string>& coordinates, std::string* value)> load;
  // After all phases: for each element (statements; value as loaded), or once a row.
  std::function<Result<std::string>(const std::vector<std::string>& coordinates, const std::string& value)> each;
  std::function<Result<std::string>(const std::vector<std::string>& coordinates)> row;
  std::string words;  // for the kernel's comment
};

struct RowStyle {
  RowThreads by = RowThreads::kWarp;
  bool cached = false;  // blocks: the row is kept in dynamic shared memory between passes
};

// Adds the kernel to `unit`, with sizes of the domain as arguments (they must be added to the unit before).
Status write_rows(const RowProgram& program, const RowStyle& style, UnitText& unit, Writer& writer);

// Coordinates of the axes that are (not) reduced, from a flat index over them: statements; `coordinates` gets the names.
std::string split_coordinates(const Domain& domain, bool reduced, const std::string& flat, const char* type,
                              std::vector<std::string>& coordinates, std::vector<IndexFact>* facts);

// Row lengths for which a mapping makes sense.
bool fits(RowThreads by, std::int64_t rows, std::int64_t columns);

// Texts that merge a state over a warp (xor: all lanes get it) or a block.
std::string warp_merge(const Reducer& reducer);
std::string block_merge(const Reducer& reducer, RowThreads by, int threads, const std::string& suffix, bool broadcast);

}  // namespace musacoder::synth
