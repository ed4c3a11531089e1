#include <nlohmann/json.hpp>

#include "base/json_lines.h"
#include "build/build.h"

namespace musacoder::build {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxSourceBytes = 16u << 20;

Status read_strings(const json& value, const char* key, std::vector<std::string>& out) {
  auto it = value.find(key);
  if (it == value.end() || it->is_null()) return ok();
  if (it->is_string()) {
    out.push_back(it->get<std::string>());
    return ok();
  }
  if (!it->is_array()) return fail(Code::kInvalidArgument, "extension: '{}' must be a list of strings", key);
  for (const auto& item : *it) {
    if (!item.is_string()) return fail(Code::kInvalidArgument, "extension: '{}' must hold strings only", key);
    out.push_back(item.get<std::string>());
  }
  return ok();
}

Status read_bool(const json& value, const char* key, bool& out) {
  auto it = value.find(key);
  if (it == value.end() || it->is_null()) return ok();
  if (!it->is_boolean()) return fail(Code::kInvalidArgument, "extension: '{}' must be true or false", key);
  out = it->get<bool>();
  return ok();
}

}  // namespace

Result<Extension> extension_from_json(const std::string& text) {
  MC_ASSIGN_OR_RETURN(json value, base::parse_json(text));
  if (!value.is_object()) return fail(Code::kInvalidArgument, "extension: not a JSON object");
  Extension e;
  if (auto it = value.find("name"); it != value.end()) {
    if (!it->is_string()) return fail(Code::kInvalidArgument, "extension: 'name' must be a string");
    e.name = it->get<std::string>();
  }
  MC_RETURN_IF_ERROR(read_strings(value, "cpp_sources", e.cpp_sources));
  MC_RETURN_IF_ERROR(read_strings(value, "cuda_sources", e.cuda_sources));
  MC_RETURN_IF_ERROR(read_strings(value, "extra_cflags", e.extra_cflags));
  MC_RETURN_IF_ERROR(read_strings(value, "extra_cuda_cflags", e.extra_cuda_cflags));
  MC_RETURN_IF_ERROR(read_strings(value, "extra_ldflags", e.extra_ldflags));
  MC_RETURN_IF_ERROR(read_strings(value, "extra_include_paths", e.extra_include_paths));
  MC_RETURN_IF_ERROR(read_bool(value, "with_cuda", e.with_cuda));
  MC_RETURN_IF_ERROR(read_bool(value, "no_implicit_headers", e.no_implicit_headers));
  if (auto it = value.find("dialect"); it != value.end() && !it->is_null()) {
    if (*it != "cuda" && *it != "musa") return fail(Code::kInvalidArgument, "extension: 'dialect' must be cuda or musa");
    e.musa = *it == "musa";
  }
  if (auto it = value.find("functions"); it != value.end() && !it->is_null()) {
    e.functions.emplace();
    if (it->is_object()) {
      for (const auto& [name, doc] : it->items()) e.functions->emplace_back(name, doc.is_string() ? doc.get<std::string>() : name);
    } else if (it->is_array() || it->is_string()) {
      std::vector<std::string> names;
      MC_RETURN_IF_ERROR(read_strings(value, "functions", names));
      for (const auto& name : names) e.functions->emplace_back(name, name);
    } else {
      return fail(Code::kInvalidArgument, "extension: 'functions' must be a list or an object");
    }
  }
  if (auto it = value.find("kind"); it != value.end()) {
    if (*it != "inline" && *it != "files") return fail(Code::kInvalidArgument, "extension: 'kind' must be inline or files");
    e.from_files = *it == "files";
  }
  if (auto it = value.find("files"); it != value.end() && !it->is_null()) {
    if (!it->is_object()) return fail(Code::kInvalidArgument, "extension: 'files' must be an object of name to text");
    for (const auto& [name, source] : it->items()) {
      if (!source.is_string()) return fail(Code::kInvalidArgument, "extension: file '{}' must be text", name);
      e.files[name] = source.get<std::string>();
    }
  }
  std::size_t bytes = 0;
  for (const auto& list : {e.cpp_sources, e.cuda_sources})
    for (const auto& source : list) bytes += source.size();
  for (const auto& [name, source] : e.files) bytes += source.size();
  if (bytes > kMaxSourceBytes) return fail(Code::kInvalidArgument, "extension: {} bytes of source; the limit is {}", bytes, kMaxSourceBytes);
  return e;
}

}  // namespace musacoder::build
