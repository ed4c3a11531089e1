// Fields of replies that may be missing or of another type: the value where it is what is wanted, else a default.
//
//   text_of(reply, "status", "infra:reference_runner")
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace musacoder::judge {

// Bytes of all tensors in a tree of places (objects with nbytes).
inline std::uint64_t tensor_bytes(const nlohmann::json& tree) {
  if (tree.is_object())
    if (auto bytes = tree.find("nbytes"); bytes != tree.end() && bytes->is_number_unsigned()) return bytes->get<std::uint64_t>();
  std::uint64_t sum = 0;
  if (tree.is_structured())
    for (const auto& part : tree) sum += tensor_bytes(part);
  return sum;
}

inline std::string text_of(const nlohmann::json& object, const char* key, const char* otherwise = "") {
  auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : otherwise;
}

inline double number_of(const nlohmann::json& object, const char* key, double otherwise = 0) {
  auto it = object.find(key);
  return it != object.end() && it->is_number() ? it->get<double>() : otherwise;
}

}  // namespace musacoder::judge
