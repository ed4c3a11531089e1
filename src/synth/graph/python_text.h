// Python texts of operators: literals, and the templates of ops.h.
//
//   python_value(2.5)                                                  // "2.5"
//   fill_template("torch.sum({0}[[, dim={dim}]])", {"x"}, {{"dim", 1}}, {{"dim", "1"}})   // "torch.sum(x, dim=1)"
//
// {0}, {1} … operands, {*} all of them; {name} an attribute's text; {name:raw} a string without quotes, {name:tuple} a list as (1, 2),
// {name:list} as [1, 2], {name:items} as 1, 2. A group in [[ ]] is left out where an operand or attribute in it is missing. Operands of
// symbols that are not plain are put in parentheses.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "synth/graph/graph.h"

namespace musacoder::synth {

std::string python_value(const Attr::Value& value);
std::string fill_template(std::string_view pattern, const std::vector<std::string>& operands, const Attrs& attrs,
                          const std::map<std::string, std::string>& texts);

}  // namespace musacoder::synth
