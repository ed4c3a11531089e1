#include <algorithm>

#include "vgpu/exec/program.h"

namespace musacoder::vgpu::exec {

bool ends_block(const ptx::Instruction& in) {
  return in.opcode == "bra" || in.opcode == "brx" || in.opcode == "ret" || in.opcode == "exit" || in.opcode == "call" ||
         in.opcode == "trap";
}

std::vector<BasicBlock> control_flow(const ptx::Function& f) {
  const auto n = std::uint32_t(f.body.size());
  std::vector<bool> leader(n + 1, false);
  leader[0] = true;
  auto mark = [&](std::uint32_t i) {
    if (i <= n) leader[i] = true;
  };
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto& in = f.body[i];
    if (ends_block(in)) mark(i + 1);
    // An indirect call is executed again for every distinct target, so it stands alone.
    if (in.opcode == "call") mark(i);
    for (const auto& o : in.operands) {
      if (o.kind == ptx::Operand::Kind::kLabel) mark(o.label);
      if (in.opcode == "brx")
        for (const auto& t : o.items) mark(t.label);
    }
  }
  std::vector<BasicBlock> blocks;
  std::vector<std::uint32_t> block_of(n + 1, 0);
  for (std::uint32_t i = 0; i < n; ++i) {
    if (leader[i]) {
      blocks.emplace_back();
      blocks.back().begin = i;
    }
    block_of[i] = std::uint32_t(blocks.size() - 1);
    blocks.back().end = i + 1;
  }
  const auto count = std::uint32_t(blocks.size());
  block_of[n] = count;
  for (std::uint32_t b = 0; b < count; ++b) {
    auto& block = blocks[b];
    const auto& last = f.body[block.end - 1];
    auto add = [&](std::uint32_t to) {
      if (std::find(block.successors.begin(), block.successors.end(), to) == block.successors.end())
        block.successors.push_back(to);
    };
    bool guarded = last.guard >= 0;
    if (last.opcode == "bra" && !last.operands.empty() && last.operands[0].kind == ptx::Operand::Kind::kLabel) {
      add(block_of[last.operands[0].label]);
      if (guarded) add(b + 1);
    } else if (last.opcode == "brx") {
      if (last.operands.size() == 2)
        for (const auto& t : last.operands[1].items) add(block_of[t.label]);
      if (guarded || block.successors.empty()) add(b + 1);
    } else if (last.opcode == "ret" || last.opcode == "exit" || last.opcode == "trap") {
      add(count);
      if (guarded) add(b + 1);
    } else {
      add(b + 1);
    }
  }
  // Immediate post-dominators by Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", on the reverse graph.
  std::vector<std::vector<std::uint32_t>> predecessors(count + 1);
  for (std::uint32_t b = 0; b < count; ++b)
    for (auto s : blocks[b].successors) predecessors[s].push_back(b);
  std::vector<std::uint32_t> order;              // postorder of the reverse graph from the exit
  std::vector<std::uint32_t> rank(count + 1, ~0u);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> stack{{count, 0}};
  std::vector<bool> seen(count + 1, false);
  seen[count] = true;
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next < predecessors[node].size()) {
      std::uint32_t p = predecessors[node][next++];
      if (!seen[p]) {
        seen[p] = true;
        stack.push_back({p, 0});
      }
    } else {
      rank[node] = std::uint32_t(order.size());
      order.push_back(node);
      stack.pop_back();
    }
  }
  std::vector<std::uint32_t> idom(count + 1, ~0u);
  idom[count] = count;
  bool changed = true;
  while (changed) {
    changed = false;
    for (std::size_t k = order.size(); k-- > 0;) {
      std::uint32_t node = order[k];
      if (node == count) continue;
      std::uint32_t best = ~0u;
      for (auto s : blocks[node].successors) {
        if (idom[s] == ~0u) continue;
        if (best == ~0u) {
          best = s;
          continue;
        }
        std::uint32_t x = s, y = best;
        while (x != y) {
          while (rank[x] < rank[y]) x = idom[x];
          while (rank[y] < rank[x]) y = idom[y];
        }
        best = x;
      }
      if (best != ~0u && idom[node] != best) {
        idom[node] = best;
        changed = true;
      }
    }
  }
  // Blocks that never reach the exit (endless loops) meet there, that is never.
  for (std::uint32_t b = 0; b < count; ++b) blocks[b].post_dominator = idom[b] == ~0u ? count : idom[b];
  return blocks;
}

void def_use(const ptx::Instruction& in, DefUse& out) {
  using Kind = ptx::Operand::Kind;
  out.defs.clear();
  out.uses.clear();
  auto use = [&](const ptx::Operand& o, auto&& self) -> void {
    if (o.kind == Kind::kReg) out.uses.push_back(o.reg);
    if (o.kind == Kind::kReg && o.second != ~0u) out.uses.push_back(o.second);
    for (const auto& item : o.items) self(item, self);
  };
  auto def = [&](const ptx::Operand& o, auto&& self) -> void {
    if (o.kind == Kind::kReg) out.defs.push_back(o.reg);
    if (o.second != ~0u) out.defs.push_back(o.second);
    if (o.kind == Kind::kVector || o.kind == Kind::kList)
      for (const auto& item : o.items) self(item, self);
    if (o.kind == Kind::kAddress) use(o, use);
  };
  std::string_view op = in.opcode;
  bool no_result = op == "st" || op == "red" || op == "bar" || op == "barrier" || op == "bra" || op == "brx" || op == "ret" ||
                   op == "exit" || op == "membar" || op == "fence" || op == "prefetch" || op == "prefetchu" || op == "cp" ||
                   op == "nanosleep" || op == "trap" || op == "brkpt" || op == "stmatrix" || op == "mbarrier" || op == "discard";
  if (op == "bar" || op == "barrier") {
    for (auto m : in.modifiers)
      if (m == "red") no_result = false;
  }
  if (op == "wmma") {
    for (auto m : in.modifiers)
      if (m == "store") no_result = true;
  }
  if (op == "mbarrier") {
    for (auto m : in.modifiers)
      if (m.starts_with("test_wait") || m.starts_with("try_wait") || m == "arrive" || m == "pending_count") no_result = false;
  }
  for (std::size_t i = 0; i < in.operands.size(); ++i) {
    const auto& o = in.operands[i];
    if (op == "call") {
      if (i == 0 && in.operands.size() > 1 && o.kind == Kind::kList) def(o, def);
      else use(o, use);
    } else if (i == 0 && !no_result) {
      def(o, def);
    } else {
      use(o, use);
    }
  }
  if (in.guard >= 0) {
    out.uses.push_back(std::uint32_t(in.guard));
    // Lanes whose guard is false keep the old value.
    out.uses.insert(out.uses.end(), out.defs.begin(), out.defs.end());
  }
}

}  // namespace musacoder::vgpu::exec
