#include "vgpu/server/strided.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace musacoder::vgpu {
namespace {

constexpr std::int64_t kMaxSpanBytes = std::int64_t{1} << 48;

struct Geometry {
  const ElementType* type = nullptr;
  std::uint64_t elements = 0, span_bytes = 0;  // span: first to last byte reached
};

Result<Geometry> measure(const StridedTensor& t, const char* role) {
  Geometry g;
  g.type = element_type(t.dtype);
  if (!g.type) return fail(Code::kInvalidArgument, "the {} has element type {}, which is not a torch type", role, t.dtype);
  if (t.ndim < 0 || t.ndim > 16) return fail(Code::kInvalidArgument, "the {} has {} dimensions; at most 16", role, t.ndim);
  std::int64_t elements = 1, last = 0;
  bool overflow = false;
  for (int d = 0; d < t.ndim; ++d) {
    if (t.sizes[d] < 0 || t.strides[d] < 0)
      return fail(Code::kInvalidArgument, "dimension {} of the {} has size {} and stride {}", d, role, t.sizes[d], t.strides[d]);
    if (t.sizes[d] == 0) return g;
  }
  for (int d = 0; d < t.ndim; ++d) {
    std::int64_t reach;
    overflow |= __builtin_mul_overflow(elements, t.sizes[d], &elements);
    overflow |= __builtin_mul_overflow(t.sizes[d] - 1, t.strides[d], &reach);
    overflow |= __builtin_add_overflow(last, reach, &last);
  }
  std::int64_t bytes;
  overflow |= __builtin_add_overflow(last, 1, &last);
  overflow |= __builtin_mul_overflow(last, static_cast<std::int64_t>(element_bytes(*g.type)), &bytes);
  if (overflow || bytes > kMaxSpanBytes)
    return fail(Code::kInvalidArgument, "the sizes and strides of the {} reach beyond any device memory", role);
  g.elements = static_cast<std::uint64_t>(elements);
  g.span_bytes = static_cast<std::uint64_t>(bytes);
  return g;
}

struct Axis {
  std::int64_t size, to, from;  // strides in bytes
};

// Axes of size > 1 with the destination's smallest stride first, neighbours merged where both sides are contiguous.
std::vector<Axis> plan(const StridedTensor& to, std::uint32_t to_bytes, const StridedTensor* from, std::uint32_t from_bytes) {
  std::vector<Axis> axes;
  for (int d = 0; d < to.ndim; ++d)
    if (to.sizes[d] > 1)
      axes.push_back({to.sizes[d], to.strides[d] * to_bytes, from ? from->strides[d] * from_bytes : 0});
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.to < b.to; });
  std::vector<Axis> merged;
  for (const Axis& axis : axes) {
    if (!merged.empty()) {
      Axis& inner = merged.back();
      if (axis.to == inner.to * inner.size && axis.from == inner.from * inner.size) {
        inner.size *= axis.size;
        continue;
      }
    }
    merged.push_back(axis);
  }
  return merged;
}

// Sufficient and, for tensors that come from slicing and permuting, exact. Bounds the work by the memory written.
bool overlaps_itself(const std::vector<Axis>& axes, std::int64_t element) {
  std::int64_t reach = element;
  for (const Axis& axis : axes) {
    if (axis.to < reach) return true;
    reach += axis.to * (axis.size - 1);
  }
  return false;
}

// Calls run(to, from) for every inner row; offsets in bytes.
template <typename Run>
void for_each_row(const std::vector<Axis>& axes, Run run) {
  std::int64_t index[16] = {}, to = 0, from = 0;
  for (;;) {
    run(to, from);
    std::size_t d = 1;
    for (; d < axes.size(); ++d) {
      to += axes[d].to;
      from += axes[d].from;
      if (++index[d] < axes[d].size) break;
      to -= axes[d].to * axes[d].size;
      from -= axes[d].from * axes[d].size;
      index[d] = 0;
    }
    if (d >= axes.size()) return;
  }
}

}  // namespace

Result<std::uint64_t> copy_strided(const ViewBytes& view, const StridedTensor& to, const StridedTensor& from) {
  MC_ASSIGN_OR_RETURN(Geometry dst, measure(to, "destination"));
  MC_ASSIGN_OR_RETURN(Geometry src, measure(from, "source"));
  if (to.ndim != from.ndim || !std::equal(to.sizes.begin(), to.sizes.begin() + to.ndim, from.sizes.begin()))
    return fail(Code::kInvalidArgument, "source and destination have different sizes");
  if (dst.elements == 0) return 0;
  const std::uint32_t to_bytes = element_bytes(*dst.type), from_bytes = element_bytes(*src.type);
  std::vector<Axis> axes = plan(to, to_bytes, &from, from_bytes);
  if (overlaps_itself(axes, to_bytes)) return fail(Code::kInvalidArgument, "elements of the destination share memory");
  MC_ASSIGN_OR_RETURN(std::span<std::byte> out, view(to.address, dst.span_bytes));
  MC_ASSIGN_OR_RETURN(std::span<std::byte> in, view(from.address, src.span_bytes));
  std::vector<std::byte> copy;
  const std::byte* source = in.data();
  if (to.address < from.address + src.span_bytes && from.address < to.address + dst.span_bytes) {
    copy.assign(in.begin(), in.end());
    source = copy.data();
  }
  if (axes.empty()) axes.push_back({1, to_bytes, from_bytes});
  const Axis inner = axes[0];
  for_each_row(axes, [&](std::int64_t a, std::int64_t b) {
    convert_run(*dst.type, out.data() + a, inner.to, *src.type, source + b, inner.from, static_cast<std::size_t>(inner.size));
  });
  return dst.elements * to_bytes;
}

Result<std::uint64_t> fill_strided(const ViewBytes& view, const StridedTensor& to, const Scalar& value) {
  MC_ASSIGN_OR_RETURN(Geometry dst, measure(to, "destination"));
  if (value.kind < Scalar::kInt || value.kind > Scalar::kComplex)
    return fail(Code::kInvalidArgument, "scalar of kind {}", value.kind);
  if (dst.elements == 0) return 0;
  const std::uint32_t bytes = element_bytes(*dst.type);
  std::vector<Axis> axes = plan(to, bytes, nullptr, 0);
  if (overlaps_itself(axes, bytes)) return fail(Code::kInvalidArgument, "elements of the destination share memory");
  MC_ASSIGN_OR_RETURN(std::span<std::byte> out, view(to.address, dst.span_bytes));
  alignas(16) std::byte element[16];
  convert_scalar(*dst.type, element, value);
  if (axes.empty()) axes.push_back({1, bytes, 0});
  const Axis inner = axes[0];
  for_each_row(axes, [&](std::int64_t a, std::int64_t) {
    convert_run(*dst.type, out.data() + a, inner.to, *dst.type, element, 0, static_cast<std::size_t>(inner.size));
  });
  return dst.elements * bytes;
}

}  // namespace musacoder::vgpu
