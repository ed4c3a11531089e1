// What is done to a drawn graph before it is printed, so that a task that is one operator has neighbours, and constructors look as people write them.
//
//   surround(graph, draw, summary);     // an element-wise operator or two before or behind what there is
//   name_arguments(graph, draw);        // numbers of operators and members become arguments of the constructor
#pragma once

#include <string>

#include "synth/graph/graph.h"
#include "synth/seeded.h"

namespace musacoder::synth {

// Puts operators before the first input (where its values may be anything) or behind the only output (where it is a floating type), and says so in
// the summary, which is a sentence or the beginning of one. A graph that cannot be changed so stays as it is.
void surround(Graph& graph, Seeded& draw, std::string& summary);

// Draws graph.constructor, and gives names to numbers that were literals: strides, axes, slopes, scales. What is computed stays the same.
void name_arguments(Graph& graph, Seeded& draw);

}  // namespace musacoder::synth
