#include "train/data/plan.h"

#include <algorithm>
#include <cmath>
#include <list>

#include "train/config/config_table.h"
#include "train/data/random.h"

namespace musacoder::train {
namespace {

// What is drawn as one: an example, or the group of those of which an epoch takes one.
using Units = std::vector<std::vector<std::uint32_t>>;

std::vector<Units> units_by_family(const Dataset& data) {
  std::vector<Units> out(data.families.size());
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::size_t> groups;
  for (std::uint32_t i = 0; i < data.examples.size(); ++i) {
    const Example& one = data.examples[i];
    Units& units = out[one.family];
    if (one.group == 0) {
      units.push_back({i});
      continue;
    }
    const auto [at, fresh] = groups.emplace(std::pair(one.family, one.group), units.size());
    if (fresh) units.emplace_back();
    units[at->second].push_back(i);
  }
  return out;
}

// How many units of each family an epoch draws.
std::vector<std::uint64_t> draws(const Dataset& data, const std::vector<Units>& units,
                                 const Mixture& mixture) {
  std::vector<double> count(units.size(), 0);
  double weighted = 0, shares = 0, all = 0;
  for (std::size_t f = 0; f < units.size(); ++f) {
    const auto n = static_cast<double>(units[f].size());
    all += n;
    if (const auto share = mixture.shares.find(data.families[f]); share != mixture.shares.end()) {
      if (n > 0) shares += share->second;
      continue;
    }
    const auto weight = mixture.weights.find(data.families[f]);
    count[f] = n * (weight == mixture.weights.end() ? 1 : weight->second);
    weighted += count[f];
  }
  // Only shares, or all of it: as many examples as there are.
  const double total = weighted > 0 && shares < 1 ? weighted / (1 - shares) : all;
  std::vector<std::uint64_t> out;
  for (std::size_t f = 0; f < units.size(); ++f) {
    const auto share = mixture.shares.find(data.families[f]);
    double n = share == mixture.shares.end() ? count[f] : share->second * total;
    if (share != mixture.shares.end() && (weighted <= 0 || shares >= 1)) n /= std::max(shares, 1e-300);
    out.push_back(units[f].empty() ? 0 : static_cast<std::uint64_t>(std::llround(n)));
  }
  return out;
}

}  // namespace

Status check_mixture(const Dataset& data, const Mixture& mixture) {
  for (const auto* map : {&mixture.weights, &mixture.shares})
    for (const auto& [name, value] : *map)
      if (std::find(data.families.begin(), data.families.end(), name) == data.families.end()) {
        const std::string near = nearest_name(name, data.families);
        return fail(Code::kInvalidArgument, "mixture: the data has no family '{}'{}", name,
                    near.empty() ? "" : fmt::format("; did you mean '{}'?", near));
      }
  if (data.examples.empty())
    return fail(Code::kInvalidArgument, "the data has no examples{}",
                data.dropped ? fmt::format(": all {} rows are longer than data.length", data.dropped) : "");
  if (draw_examples(data, mixture, 0, 0).empty())
    return fail(Code::kInvalidArgument, "the mixture leaves no examples");
  return ok();
}

std::vector<std::uint32_t> draw_examples(const Dataset& data, const Mixture& mixture, std::uint64_t seed,
                                         std::uint64_t epoch) {
  std::vector<Units> families = units_by_family(data);
  const std::vector<std::uint64_t> wanted = draws(data, families, mixture);
  std::vector<std::uint32_t> order;
  for (std::size_t f = 0; f < families.size(); ++f) {
    Random random({seed, epoch, f, 1});
    std::uint64_t left = wanted[f];
    while (left > 0) {
      random.shuffle(families[f]);
      const std::uint64_t now = std::min<std::uint64_t>(left, families[f].size());
      for (std::uint64_t i = 0; i < now; ++i) {
        const auto& unit = families[f][i];
        order.push_back(unit.size() == 1 ? unit[0] : unit[random.below(unit.size())]);
      }
      left -= now;
    }
  }
  Random random({seed, epoch, 2});
  random.shuffle(order);
  return order;
}

std::vector<std::vector<std::uint32_t>> pack_rows(const Dataset& data,
                                                  const std::vector<std::uint32_t>& order,
                                                  const RowOptions& options) {
  std::vector<std::vector<std::uint32_t>> rows;
  struct Open {
    std::size_t row;
    std::int64_t room;
  };
  std::list<Open> open;  // in the order of their rows
  for (const std::uint32_t example : order) {
    const std::int64_t length = data.examples[example].length;
    auto best = open.end();
    for (auto it = open.begin(); it != open.end(); ++it)
      if (it->room >= length && (best == open.end() || it->room < best->room)) best = it;
    if (best == open.end()) {
      rows.emplace_back();
      if (static_cast<std::int64_t>(open.size()) == options.window) open.pop_front();
      best = open.insert(open.end(), {rows.size() - 1, options.packing ? options.length : length});
    }
    rows[best->row].push_back(example);
    best->room -= length;
    if (best->room < 2) open.erase(best);  // the shortest example has two tokens
  }
  return rows;
}

EpochPlan plan_epoch(const Dataset& data, const Mixture& mixture, const RowOptions& options,
                     std::uint64_t seed, std::uint64_t epoch) {
  const std::vector<std::uint32_t> order = draw_examples(data, mixture, seed, epoch);
  EpochPlan out{pack_rows(data, order, options), std::vector<std::uint64_t>(data.families.size(), 0)};
  for (const std::uint32_t example : order) ++out.family_examples[data.examples[example].family];
  return out;
}

EpochPlan plan_in_order(const Dataset& data, const RowOptions& options) {
  std::vector<std::uint32_t> order(data.examples.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  return {pack_rows(data, order, options), {}};
}

RowBatch make_batch(const Dataset& data, const EpochPlan& plan, std::size_t from, std::size_t to) {
  std::vector<std::vector<std::int64_t>> sequences;
  std::vector<std::int64_t> targets;
  RowBatch out;
  for (std::size_t row = from; row < to; ++row)
    for (const std::uint32_t index : plan.rows[row]) {
      const Example& one = data.examples[index];
      const auto tokens = data.tokens_of(index);
      sequences.emplace_back(tokens.begin(), tokens.end());
      for (std::uint32_t next = 1; next <= one.length; ++next) {
        const bool lossy = next >= one.loss_from && next < one.loss_to;
        targets.push_back(lossy ? static_cast<std::int64_t>(tokens[next]) : -1);
        out.loss_tokens += lossy;
      }
    }
  if (sequences.empty()) {
    sequences = {{0, 0}};
    targets = {-1, -1};
  }
  out.packed = llm::pack(sequences);
  out.targets = at::tensor(targets, at::kLong);
  return out;
}

RowCounts count_rows(const Dataset& data, const EpochPlan& plan, std::size_t from, std::size_t to) {
  RowCounts out;
  for (std::size_t row = from; row < to; ++row)
    for (const std::uint32_t index : plan.rows[row]) {
      const Example& one = data.examples[index];
      out.tokens += one.length;
      out.loss_tokens += one.loss_to - std::max(1u, one.loss_from);
      ++out.examples;
    }
  return out;
}

}  // namespace musacoder::train
