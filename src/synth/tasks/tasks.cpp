#include "synth/tasks/tasks.h"

#include <algorithm>
#include <map>
#include <set>

#include "synth/graph/print.h"
#include "synth/tasks/variants.h"

namespace musacoder::synth {

const std::vector<Archetype>& archetypes() {
  static const std::vector<Archetype> all = [] {
    std::vector<Archetype> list;
    for (const auto* table : {&elementwise_archetypes(), &reduction_archetypes(), &norm_archetypes(), &layout_archetypes(), &loss_archetypes(),
                              &matrix_archetypes(), &conv_archetypes(), &pool_archetypes(), &attention_archetypes(), &scan_archetypes(), &network_archetypes()})
      list.insert(list.end(), table->begin(), table->end());
    return list;
  }();
  return all;
}

const Archetype* find_archetype(std::string_view name) {
  const auto it = std::find_if(archetypes().begin(), archetypes().end(), [&](const Archetype& a) { return name == a.name; });
  return it == archetypes().end() ? nullptr : &*it;
}

Result<DrawnTask> make_task(const Archetype& archetype, std::uint64_t seed) {
  GraphBuilder builder;
  Seeded draw(mix(seed, archetype.name));
  DrawnTask task;
  archetype.make(builder, draw, task.summary);
  MC_ASSIGN_OR_RETURN(task.graph, builder.build());
  Seeded vary(mix(seed, "variants"));
  // One operator alone is what benchmarks hold and guards drop; what is near it stays.
  if (task.graph.nodes.size() <= 2 && vary.chance(0.4)) surround(task.graph, vary, task.summary);
  name_arguments(task.graph, vary);
  task.file = print_task(task.graph, style_of(mix(seed, "print")), task.summary);
  task.domain = archetype.domain;
  task.family = archetype.family;
  task.archetype = archetype.name;
  task.seed = seed;
  task.level = task.family == "network" ? 3 : task.graph.nodes.size() > 1 ? 2 : 1;
  return task;
}

std::string in_style(const DrawnTask& task, std::uint64_t other) {
  const std::uint64_t seed = mix(task.seed, "print");
  return print_task(task.graph, style_of(other == 0 ? seed : mix(seed, fmt::format("style {}", other))), task.summary);
}

Result<std::vector<DrawnTask>> draw_tasks(const DrawConfig& config) {
  static const std::set<std::string> kOften = {"conv", "conv_transpose", "fused_conv", "pool", "reduction", "norm", "softmax", "matmul", "scan", "broadcast", "indexing"};
  std::vector<const Archetype*> round;
  std::set<std::string> known_families;
  for (const Archetype& archetype : archetypes()) {
    known_families.insert(archetype.family);
    const auto& only = config.families;
    if (!only.empty() && std::count(only.begin(), only.end(), archetype.family) == 0) continue;
    round.push_back(&archetype);
    if (kOften.count(archetype.family) != 0) round.push_back(&archetype);
  }
  for (const std::string& family : config.families)
    if (known_families.count(family) == 0) {
      std::string all;
      for (const std::string& known : known_families) all += (all.empty() ? "" : ", ") + known;
      return fail(Code::kInvalidArgument, "there is no family '{}'; there are {}", family, all);
    }
  Seeded draw(mix(config.seed, "draw tasks"));
  std::vector<DrawnTask> tasks;
  std::set<std::string> hashes;
  const double random_share = config.families.empty() ? config.random_share : 0.0;
  std::size_t next = round.size(), in_vain = 0;
  while (tasks.size() < config.count && in_vain < 200 + config.count) {
    if (next >= round.size()) {
      draw.shuffle(round);
      next = 0;
    }
    const std::uint64_t seed = draw.next() >> 16;
    Result<DrawnTask> task = draw.chance(random_share) ? random_task(seed) : make_task(*round[next++], seed);
    if (!task || !hashes.insert(canonical_hash(task->graph, true)).second) {
      ++in_vain;
      continue;
    }
    in_vain = 0;
    tasks.push_back(std::move(*task));
  }
  return tasks;
}

DType draw_float(Seeded& draw) {
  const double p = draw.real();
  return p < 0.8 ? DType::kF32 : p < 0.92 ? DType::kF16 : DType::kBF16;
}

namespace {

std::int64_t size_between(Seeded& draw, std::int64_t low, std::int64_t high) {
  // Regular: a power of two. Unaligned: near one, odd. Free: anything.
  const double p = draw.real();
  if (p < 0.25) return draw.between(low, high) | 1;
  std::int64_t power = 1;
  while (power * 2 <= low) power *= 2;
  std::vector<std::int64_t> choices;
  for (; power <= high; power *= 2)
    if (power >= low) choices.push_back(power);
  if (choices.empty()) return draw.between(low, high);
  const std::int64_t size = draw.choose(choices);
  if (p < 0.75) return size;
  const std::int64_t near = size + draw.choose({-1, 1, 3, -3, 8, -24});
  return near >= low && near <= high ? near : size;
}

std::vector<Dim> shape(GraphBuilder& b, Seeded& draw, int rank, std::int64_t most) {
  struct Range {
    const char* name;
    std::int64_t low, high;
  };
  static const std::map<int, std::vector<std::vector<Range>>> kForms = {
      {1, {{{"n", 1024, 1 << 22}}, {{"length", 4096, 1 << 20}}}},
      {2, {{{"batch_size", 16, 4096}, {"features", 64, 16384}}, {{"rows", 64, 8192}, {"cols", 33, 8192}}, {{"M", 128, 4096}, {"N", 128, 4096}},
           {{"batch_size", 16, 128}, {"dim", 4096, 65536}}, {{"num_rows", 4096, 65536}, {"num_cols", 8, 128}}}},
      {3, {{{"batch_size", 8, 256}, {"seq_len", 64, 2048}, {"hidden", 64, 1024}}, {{"batch_size", 16, 128}, {"channels", 16, 256}, {"length", 64, 4096}},
           {{"batch_size", 16, 128}, {"dim1", 64, 1024}, {"dim2", 64, 1024}}}},
      {4, {{{"batch_size", 8, 128}, {"channels", 16, 128}, {"height", 14, 128}, {"width", 14, 128}},
           {{"batch_size", 2, 32}, {"num_heads", 4, 16}, {"seq_len", 64, 512}, {"seq_len_k", 64, 512}}}},
      {5, {{{"batch_size", 2, 16}, {"channels", 8, 64}, {"depth", 8, 32}, {"height", 14, 64}, {"width", 14, 64}}}}};
  const std::vector<Range>& form = draw.choose(kForms.at(std::clamp(rank, 1, 5)));
  std::vector<std::int64_t> sizes;
  for (const Range& r : form) sizes.push_back(size_between(draw, r.low, r.high));
  const auto total = [&] {
    std::int64_t n = 1;
    for (std::int64_t s : sizes) n *= s;
    return n;
  };
  for (std::size_t d = 0; total() > most; d = (d + 1) % sizes.size())
    if (sizes[d] > 8) sizes[d] = std::max<std::int64_t>(8, sizes[d] % 2 == 0 ? sizes[d] / 2 : (sizes[d] / 2) | 1);
  std::vector<Dim> dims;
  for (std::size_t d = 0; d < form.size(); ++d) dims.push_back(b.dim(form[d].name, sizes[d]));
  return dims;
}

}  // namespace

std::vector<Dim> draw_shape(GraphBuilder& b, Seeded& draw, int rank) { return shape(b, draw, rank, std::int64_t{1} << 26); }
std::vector<Dim> draw_shape_small(GraphBuilder& b, Seeded& draw, int rank) { return shape(b, draw, rank, std::int64_t{1} << 20); }

Layout draw_layout(Seeded& draw, int rank) {
  const double p = draw.real();
  if (rank < 2 || p < 0.9) return Layout::kContiguous;
  return p < 0.95 ? Layout::kTransposed : Layout::kSliced;
}

std::string words(const std::string& op) {
  static const std::map<std::string, std::string> kWords = {
      {"relu", "ReLU"}, {"relu6", "ReLU6"}, {"elu", "ELU"}, {"selu", "SELU"}, {"celu", "CELU"}, {"gelu", "GELU"}, {"silu", "SiLU"},
      {"mish", "Mish"}, {"leaky_relu", "leaky ReLU"}, {"prelu", "PReLU"}, {"amax", "maximum"}, {"amin", "minimum"}, {"var", "variance"},
      {"std", "standard deviation"}, {"prod", "product"}, {"logsumexp", "log-sum-exp"}, {"log_softmax", "log-softmax"},
      {"layer_norm", "layer normalisation"}, {"rms_norm", "RMS normalisation"}, {"group_norm", "group normalisation"},
      {"instance_norm", "instance normalisation"}, {"batch_norm", "batch normalisation"}, {"normalize", "normalisation to unit length"}};
  const auto it = kWords.find(op);
  if (it != kWords.end()) return it->second;
  std::string text = op;
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

}  // namespace musacoder::synth
