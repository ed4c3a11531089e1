// What kernels over one to three spatial axes share: names of sizes and coordinates, windows, and the arguments that Python gives for them.
//
//   Spatial s(unit, x, 2);                       // x: (N, C, H, W): in_h, in_w; coordinates oh, ow
//   s.window(node, "stride", 1)                  // one name for all axes where they agree: {"stride", "stride"}
//   s.decode(kernel, "idx", {"n", …})            // const int ow = idx % out_w; …
#pragma once

#include <string>
#include <vector>

#include "synth/teacher/anchor_unit.h"

namespace musacoder::synth {

// A number for each spatial axis (stride, padding, …): values, and names of arguments; "" where the value changes nothing.
struct PerAxis {
  std::vector<std::int64_t> values;
  std::vector<std::string> names;
};

// Numbers of an attribute for each of `axes`.
std::vector<std::int64_t> spread(const Node& node, const char* attribute, std::size_t axes, std::int64_t otherwise);

// What Python passes for an operator's attribute: the member that holds its constant, else the number.
std::string argument_text(const Node& node, const char* attribute, std::size_t k, std::int64_t value);

// Arguments for an attribute; those equal to `neutral` on all axes get no argument and no name. Of members the module's own attribute is
// passed ("self.conv.stride[0]"), else the number.
PerAxis per_axis(AnchorUnit& unit, const char* attribute, const std::string& wanted, std::size_t axes, std::int64_t otherwise, std::int64_t neutral);

// "h", "w" of two axes; "d", "h", "w" of three; "l" of one.
std::vector<std::string> axis_letters(std::size_t axes);

// Statements that take a flat index apart, innermost last in `names` and `sizes`: "const int ow = idx % out_w;".
std::string decoded(AnchorKernel& kernel, const std::string& index, const std::vector<std::string>& names, const std::vector<std::string>& sizes,
                    const std::vector<std::string>& meanings);
// "((n * c_count + c) * h_count + h) * w_count + w": first coordinate without a size.
std::string flat_index(const std::vector<std::string>& coordinates, const std::vector<std::string>& sizes);
// "oh * stride - padding + kh * dilation"
std::string window_position(const std::string& out, const std::string& stride, const std::string& padding, const std::string& k, const std::string& dilation);
// "out_h * out_w"
std::string product_text(const std::vector<std::string>& names);

}  // namespace musacoder::synth
