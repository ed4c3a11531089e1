// What a reduction keeps while it walks over elements, how two such states become one, and what comes out. Schedules know threads, reducers
// know sums: every schedule works with every reducer.
//
//   const Reducer r = *reducer_of(graph, node);    // sum: float acc = 0; acc += VALUE; acc += other_acc
//
// Texts use VALUE and INDEX for the element, COUNT for the number of elements as a float; states of the other side are named other_<name>.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "synth/graph/graph.h"

namespace musacoder::synth {

struct State {
  std::string name;
  std::string type;   // "float"
  std::string start;  // "0.0f"
};
struct Reducer {
  std::vector<State> state;
  std::string step;                  // statements with line breaks
  std::string merge;
  std::vector<std::string> results;  // expressions, one for each result of the operator
  std::string words;                 // "sum of the elements", for comments and derivations
};

// For nodes of class kReduction.
Result<Reducer> reducer_of(const Graph& graph, const Node& node);

// Parts of row operators; `prefix` keeps states of several phases apart.
Reducer sum_of(const std::string& name, const std::string& expression, const std::string& words);
Reducer maximum_of(const std::string& name, const std::string& expression);
Reducer online_exponentials(const std::string& peak, const std::string& sum);  // running maximum and Σ exp(VALUE − maximum)
Reducer welford(const std::string& mean, const std::string& squares, const std::string& count);

// VALUE, INDEX and COUNT replaced.
std::string with_element(std::string text, const std::string& value, const std::string& index, const std::string& count);

}  // namespace musacoder::synth
