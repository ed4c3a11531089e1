#include "synth/teacher/plan.h"

#include <algorithm>
#include <functional>
#include <set>

#include "synth/graph/ops.h"
#include "synth/teacher/scalar.h"

namespace musacoder::synth {
namespace {

bool elementwise(const Graph& graph, int node) {
  const Node& n = graph.nodes[static_cast<std::size_t>(node)];
  return find_op(n.op)->cls == OpClass::kElementwise && has_scalar(n);
}

class Planner {
 public:
  explicit Planner(const Graph& graph) : graph_(graph), home_(graph.nodes.size(), -1) {}

  Result<std::vector<Step>> plan(bool fuse) {
    for (int n = 0; n < static_cast<int>(graph_.nodes.size()); ++n) place(n, fuse);
    if (fuse) prologues();
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].nodes.empty() || groups_[g].view) continue;
      if (!taken(groups_[g])) {
        std::string names;
        for (int n : groups_[g].nodes) names += " " + graph_.nodes[static_cast<std::size_t>(n)].op;
        return fail(Code::kUnsupported, "no schedule takes{}", names);
      }
    }
    return ordered();
  }

 private:
  struct Group {
    bool view = false;
    int anchor = -1;
    std::vector<int> nodes;  // in order
  };

  Region region_of(const Group& group) const {
    Region region;
    region.anchor = group.anchor;
    const std::set<int> own(group.nodes.begin(), group.nodes.end());
    bool before = group.anchor >= 0;
    for (int n : group.nodes) {
      if (n == group.anchor) {
        before = false;
        continue;
      }
      (before ? region.prologue : region.epilogue).push_back(n);
    }
    for (int n : group.nodes) {
      const Node& node = graph_.nodes[static_cast<std::size_t>(n)];
      for (int v : node.inputs) {
        const Value& value = graph_.values[static_cast<std::size_t>(v)];
        const bool inside = value.source == Source::kNode && own.count(value.node) != 0;
        if (!inside && std::count(region.inputs.begin(), region.inputs.end(), v) == 0) region.inputs.push_back(v);
      }
      for (int v : node.outputs) {
        const std::vector<int> users = graph_.users(v);
        const bool needed = graph_.is_output(v) || std::any_of(users.begin(), users.end(), [&](int u) { return own.count(u) == 0; });
        if (needed) region.outputs.push_back(v);
      }
    }
    return region;
  }

  bool taken(const Group& group) const {
    const Region region = region_of(group);
    return std::any_of(all_schedules().begin(), all_schedules().end(), [&](const auto& s) { return s->takes(graph_, region); });
  }

  // Groups that a group reads from, directly.
  std::set<int> sources(const Group& group, int self) const {
    std::set<int> all;
    for (int n : group.nodes)
      for (int v : graph_.nodes[static_cast<std::size_t>(n)].inputs) {
        const Value& value = graph_.values[static_cast<std::size_t>(v)];
        if (value.source == Source::kNode && home_[static_cast<std::size_t>(value.node)] != self) all.insert(home_[static_cast<std::size_t>(value.node)]);
      }
    return all;
  }
  bool reads(int from, int target, std::set<int>& seen) const {
    if (from == target) return true;
    if (from < 0 || !seen.insert(from).second) return false;
    for (int s : sources(groups_[static_cast<std::size_t>(from)], from))
      if (reads(s, target, seen)) return true;
    return false;
  }

  void place(int n, bool fuse) {
    const Node& node = graph_.nodes[static_cast<std::size_t>(n)];
    Group own;
    own.view = find_op(node.op)->cls == OpClass::kView;
    own.anchor = own.view || elementwise(graph_, n) ? -1 : n;
    own.nodes = {n};
    if (fuse && !own.view && own.anchor < 0) {
      // Into the group that makes one of the operands, where nothing else needs what the group keeps to itself.
      std::set<int> candidates;
      for (int v : node.inputs) {
        const Value& value = graph_.values[static_cast<std::size_t>(v)];
        if (value.source == Source::kNode) candidates.insert(home_[static_cast<std::size_t>(value.node)]);
      }
      for (auto it = candidates.rbegin(); it != candidates.rend(); ++it) {
        const int g = *it;
        Group joined = groups_[static_cast<std::size_t>(g)];
        if (joined.view) continue;
        joined.nodes.push_back(n);
        bool cycle = false;
        for (int s : candidates) {
          std::set<int> seen;
          if (s != g && reads(s, g, seen)) cycle = true;
        }
        if (cycle || !single(joined) || !taken(joined)) continue;
        groups_[static_cast<std::size_t>(g)] = joined;
        home_[static_cast<std::size_t>(n)] = g;
        return;
      }
    }
    home_[static_cast<std::size_t>(n)] = static_cast<int>(groups_.size());
    groups_.push_back(std::move(own));
  }

  // Whether everything but the last node's results stays inside, so that fusing writes no more than before.
  bool single(const Group& group) const {
    const Region region = region_of(group);
    for (int v : region.outputs)
      if (graph_.values[static_cast<std::size_t>(v)].node != group.nodes.back()) {
        // What is asked for later may still come to be inside; until then it is a second result, which element-wise kernels can write.
        if (group.anchor >= 0) return false;
      }
    return true;
  }

  void prologues() {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].anchor < 0 || groups_[g].nodes.empty()) continue;
      for (int v : graph_.nodes[static_cast<std::size_t>(groups_[g].anchor)].inputs) {
        const Value& value = graph_.values[static_cast<std::size_t>(v)];
        if (value.source != Source::kNode || graph_.is_output(v)) continue;
        const int from = home_[static_cast<std::size_t>(value.node)];
        Group& feeder = groups_[static_cast<std::size_t>(from)];
        if (from == static_cast<int>(g) || feeder.view || feeder.anchor >= 0) continue;
        const Region region = region_of(feeder);
        if (region.outputs != std::vector<int>{v}) continue;
        const std::vector<int> users = graph_.users(v);
        if (!std::all_of(users.begin(), users.end(), [&](int u) { return home_[static_cast<std::size_t>(u)] == static_cast<int>(g); })) continue;
        Group joined = groups_[g];
        joined.nodes.insert(joined.nodes.begin(), feeder.nodes.begin(), feeder.nodes.end());
        if (!taken(joined)) continue;
        for (int n : feeder.nodes) home_[static_cast<std::size_t>(n)] = static_cast<int>(g);
        groups_[g] = joined;
        feeder.nodes.clear();
      }
    }
  }

  std::vector<Step> ordered() const {
    std::vector<Step> steps;
    std::set<int> done;
    const std::function<void(int)> visit = [&](int g) {
      if (groups_[static_cast<std::size_t>(g)].nodes.empty() || !done.insert(g).second) return;
      for (int s : sources(groups_[static_cast<std::size_t>(g)], g)) visit(s);
      const Group& group = groups_[static_cast<std::size_t>(g)];
      Step step;
      step.view = group.view;
      if (group.view) step.node = group.nodes[0];
      else step.region = region_of(group);
      steps.push_back(std::move(step));
    };
    for (std::size_t g = 0; g < groups_.size(); ++g) visit(static_cast<int>(g));
    return steps;
  }

  const Graph& graph_;
  std::vector<Group> groups_;
  std::vector<int> home_;  // group of each node
};

}  // namespace

Result<std::vector<Step>> plan_graph(const Graph& graph, const PlanStyle& style) { return Planner(graph).plan(style.fuse); }

}  // namespace musacoder::synth
