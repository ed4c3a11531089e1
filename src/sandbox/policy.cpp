#include "sandbox/policy.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_lines.h"

namespace musacoder::sandbox {
namespace {

using nlohmann::json;

Status read_paths(const json& value, const std::string& key, std::vector<std::string>& out) {
  if (!value.is_array()) return fail(Code::kInvalidArgument, "sandbox policy: '{}' must be a list of paths", key);
  for (const auto& item : value) {
    if (!item.is_string() || item.get_ref<const std::string&>().empty() || item.get_ref<const std::string&>()[0] != '/')
      return fail(Code::kInvalidArgument, "sandbox policy: '{}' must hold absolute paths", key);
    out.push_back(item.get<std::string>());
  }
  return ok();
}

template <typename T>
Status read_number(const json& value, const std::string& key, T& out) {
  if (!value.is_number() || value.get<double>() < (key == "result_fd" ? -1 : 0) || value.get<double>() > 1e18)
    return fail(Code::kInvalidArgument, "sandbox policy: '{}' must be a number that is not negative", key);
  out = static_cast<T>(std::is_floating_point_v<T> || value.is_number_integer() ? value.get<T>()
                                                                                : static_cast<T>(value.get<double>()));
  return ok();
}

Status read_bool(const json& value, const std::string& key, bool& out) {
  if (!value.is_boolean()) return fail(Code::kInvalidArgument, "sandbox policy: '{}' must be true or false", key);
  out = value.get<bool>();
  return ok();
}

}  // namespace

Result<Policy> policy_from_json(const std::string& text) {
  MC_ASSIGN_OR_RETURN(json value, base::parse_json(text));
  if (!value.is_object()) return fail(Code::kInvalidArgument, "sandbox policy: not a JSON object");
  Policy policy;
  for (const auto& [key, item] : value.items()) {
    Status status;
    if (key == "readable") status = read_paths(item, key, policy.readable);
    else if (key == "writable") status = read_paths(item, key, policy.writable);
    else if (key == "devices") status = read_paths(item, key, policy.devices);
    else if (key == "bound_addresses") status = read_bool(item, key, policy.bound_addresses);
    else if (key == "system") status = read_bool(item, key, policy.system);
    else if (key == "cwd" && item.is_string()) policy.cwd = item.get<std::string>();
    else if (key == "tmp_bytes") status = read_number(item, key, policy.tmp_bytes);
    else if (key == "writable_bytes") status = read_number(item, key, policy.writable_bytes);
    else if (key == "memory_bytes") status = read_number(item, key, policy.memory_bytes);
    else if (key == "cpu_s") status = read_number(item, key, policy.cpu_s);
    else if (key == "wall_s") status = read_number(item, key, policy.wall_s);
    else if (key == "with_parent") status = read_bool(item, key, policy.with_parent);
    else if (key == "processes") status = read_number(item, key, policy.processes);
    else if (key == "file_bytes") status = read_number(item, key, policy.file_bytes);
    else if (key == "open_files") status = read_number(item, key, policy.open_files);
    else if (key == "network") status = read_bool(item, key, policy.network);
    else if (key == "inet_sockets") status = read_bool(item, key, policy.inet_sockets);
    else if (key == "child_devices") status = read_bool(item, key, policy.child_devices);
    else if (key == "namespaces") status = read_bool(item, key, policy.namespaces);
    else if (key == "cgroups") status = read_bool(item, key, policy.cgroups);
    else if (key == "result_fd") status = read_number(item, key, policy.result_fd);
    else return fail(Code::kInvalidArgument, "sandbox policy: unknown or ill-typed key '{}'", key);
    if (!status) return tl::unexpected(status.error());
  }
  return policy;
}

std::string to_json(const Policy& p) {
  json value = {{"readable", p.readable},
                {"writable", p.writable},
                {"devices", p.devices},
                {"bound_addresses", p.bound_addresses},
                {"system", p.system},
                {"cwd", p.cwd},
                {"tmp_bytes", p.tmp_bytes},
                {"writable_bytes", p.writable_bytes},
                {"memory_bytes", p.memory_bytes},
                {"cpu_s", p.cpu_s},
                {"wall_s", p.wall_s},
                {"with_parent", p.with_parent},
                {"processes", p.processes},
                {"file_bytes", p.file_bytes},
                {"open_files", p.open_files},
                {"network", p.network},
                {"inet_sockets", p.inet_sockets},
                {"child_devices", p.child_devices},
                {"namespaces", p.namespaces},
                {"cgroups", p.cgroups},
                {"result_fd", p.result_fd}};
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::vector<std::string> system_paths() {
  return {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
          "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/passwd", "/etc/group",
          "/etc/nsswitch.conf", "/etc/localtime", "/etc/timezone", "/etc/python3", "/etc/python3.11", "/etc/python3.12",
          "/sys/devices/system/cpu", "/sys/devices/system/node"};
}

}  // namespace musacoder::sandbox
