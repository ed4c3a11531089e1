#include "judge/exchange.h"

#include "judge/tensor_tree.h"

namespace musacoder::judge {
namespace {

using nlohmann::json;

constexpr int kMaxNodes = 4096, kMaxDepth = 64, kMaxSlots = 4096;

class FileExchange : public Exchange {
 public:
  FileExchange(device::Session& session, std::string run_dir) : session_(session), run_dir_(std::move(run_dir)), placer_(session) {}

  Result<PlacedInputs> place(const json& prepared, bool move) override {
    MC_ASSIGN_OR_RETURN(json inputs, placer_.place(prepared["inputs"], run_dir_, move));
    return PlacedInputs{std::move(inputs), json::object()};
  }

  Result<CollectedOutputs> collect(const json& claims) override {
    MC_ASSIGN_OR_RETURN(auto fetched, fetch_outputs(claims, session_, run_dir_, "outputs.bin"));
    auto after = placer_.read_back(run_dir_, "inputs_after.bin");
    // The device's trouble, not a malformed claim.
    if (!after) return fail(Code::kInternal, "{}", after.error().message);
    return CollectedOutputs{json::parse(fetched.tree), std::move(*after), std::to_string(fetched.digest), std::move(fetched.allocations)};
  }

 private:
  device::Session& session_;
  const std::string run_dir_;
  InputPlacer placer_;
};

class ArenaExchange : public Exchange {
 public:
  Result<PlacedInputs> place(const json& prepared, bool) override {
    return PlacedInputs{arena_addresses(prepared["inputs"]),
                        {{"arena", prepared.value("arena", json::object())}, {"slots", prepared.value("outputs", json::array())}}};
  }

  Result<CollectedOutputs> collect(const json& claims) override {
    MC_ASSIGN_OR_RETURN(json outputs, arena_claims(claims));
    return CollectedOutputs{std::move(outputs), nullptr, "", {}};
  }
};

Result<json> clean(const json& node, int depth, int& nodes) {
  if (++nodes > kMaxNodes || depth > kMaxDepth)
    return fail(Code::kInvalidArgument, "outputs nest too deep or hold more than {} values", kMaxNodes);
  auto kind_of = node.is_object() ? node.find("t") : node.end();
  if (!node.is_object() || kind_of == node.end() || !kind_of->is_string())
    return fail(Code::kInvalidArgument, "malformed output description");
  const std::string kind = kind_of->get<std::string>();
  if (kind == "list" || kind == "tuple" || kind == "dict") {
    auto items = node.find("items");
    if (items == node.end() || !items->is_array()) return fail(Code::kInvalidArgument, "malformed output description");
    json out = {{"t", kind}, {"items", json::array()}};
    for (const auto& item : *items) {
      MC_ASSIGN_OR_RETURN(json inner, clean(item, depth + 1, nodes));
      out["items"].push_back(std::move(inner));
    }
    if (kind == "dict") {
      auto keys = node.find("keys");
      if (keys == node.end() || !keys->is_array() || keys->size() != items->size())
        return fail(Code::kInvalidArgument, "malformed output description");
      for (const auto& key : *keys)
        if (!key.is_string()) return fail(Code::kInvalidArgument, "malformed output description");
      out["keys"] = *keys;
    }
    return out;
  }
  if (kind != "tensor") {
    json out = {{"t", kind}};
    for (const char* key : {"v", "type"})
      if (auto it = node.find(key); it != node.end() && it->is_primitive()) out[key] = *it;
    return out;
  }
  MC_RETURN_IF_ERROR(storage_extent_bytes(node));
  json out = {{"t", "tensor"}, {"dtype", node["dtype"]}, {"shape", node["shape"]}, {"strides", node["strides"]}};
  auto device = node.find("device");
  out["device"] = device != node.end() && *device == "cuda" ? "cuda" : "cpu";
  if (auto slot = node.find("slot"); slot != node.end()) {
    if (!slot->is_number_integer() || slot->get<std::int64_t>() < 0 || slot->get<std::int64_t>() >= kMaxSlots)
      return fail(Code::kInvalidArgument, "output in an impossible slot");
    out["slot"] = *slot;
  }
  if (auto type = node.find("type"); type != node.end() && type->is_string()) out["type"] = *type;
  return out;
}

}  // namespace

std::unique_ptr<Exchange> make_file_exchange(device::Session& session, const std::string& run_dir) {
  return std::make_unique<FileExchange>(session, run_dir);
}
std::unique_ptr<Exchange> make_arena_exchange() { return std::make_unique<ArenaExchange>(); }

json arena_addresses(const json& tree) {
  if (tree.is_array()) {
    json out = json::array();
    for (const auto& item : tree) out.push_back(arena_addresses(item));
    return out;
  }
  if (!tree.is_object()) return tree;
  json out = tree;
  if (auto offset = out.find("arena"); offset != out.end() && offset->is_number_integer()) {
    out["addr"] = std::to_string(offset->get<std::uint64_t>());
    out["device"] = "cuda";
    out.erase("arena");
  }
  if (auto items = out.find("items"); items != out.end()) *items = arena_addresses(*items);
  return out;
}

Result<json> arena_claims(const json& claims) {
  int nodes = 0;
  return clean(claims, 0, nodes);
}

}  // namespace musacoder::judge
