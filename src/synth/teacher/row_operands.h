// Operands of a region around a row operator or a reduction: what is read along full rows (the anchor's input, prologue, epilogue of row
// operators) and what belongs to the rows' results (epilogue of reductions).
#pragma once

#include <string>
#include <vector>

#include "synth/teacher/domain.h"
#include "synth/teacher/scalar.h"
#include "synth/teacher/unit_text.h"

namespace musacoder::synth {

// Whether one of the nodes has the value among its inputs.
bool reads(const Graph& graph, const std::vector<int>& nodes, int value);

// Value of the anchor's main input (0); what its prologue computes for, or an argument itself.
int anchor_input(const Graph& graph, const Region& region);

// For each axis of the anchor's input whether the operator walks over it.
std::vector<bool> walked_axes(const Graph& graph, const Node& node);

// Operands of all inputs of the region. `kept`: epilogue operands are aligned to the result with its walked axes gone (or of size 1).
std::vector<Operand> row_operands(const Graph& graph, const Region& region, const UnitText& unit, const std::vector<bool>& walked, bool kept);

// Statements that load operands at coordinates and compute the nodes. Only operands that these nodes (or `wanted`) read are loaded.
// `first` numbers the locals.
Result<std::string> load_and_compute(const Graph& graph, const std::vector<int>& nodes, int wanted, const Domain& domain,
                                     const std::vector<std::string>& coordinates, ScalarCode& code, Writer& writer,
                                     const std::string& suffix, std::vector<AccessFact>* accesses);

// Whether fused neighbours are such that row_operands() can place them.
bool placeable(const Graph& graph, const Region& region, bool kept);

}  // namespace musacoder::synth
