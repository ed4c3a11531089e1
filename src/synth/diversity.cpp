#include "synth/diversity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>

#include "port/tokens.h"

namespace musacoder::synth {
namespace {

using Words = std::vector<std::string_view>;

// Tokens of the code: comments are none, and a literal is one token whatever it says.
Words words_of(std::string_view source) {
  Words out;
  for (const port::Token& token : port::cpp_tokens(source)) {
    if (token.kind == port::Kind::kComment || token.kind == port::Kind::kHeader) continue;
    out.push_back(token.kind == port::Kind::kString || token.kind == port::Kind::kChar ? std::string_view("\"\"") : token.text(source));
  }
  return out;
}

std::uint64_t mixed(std::uint64_t hash, std::string_view text) {  // FNV-1a, with an end mark
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return (hash ^ 0xff) * 1099511628211ull;
}
constexpr std::uint64_t kStart = 14695981039346656037ull;

bool is_name(std::string_view word) { return !word.empty() && port::is_word_start(word[0]); }
bool starts(std::string_view word, std::string_view with) { return word.substr(0, with.size()) == with; }

// What CUDA, C++ and torch call things keeps its name; all else is numbered in the order of appearance.
bool is_fixed(std::string_view word) {
  static const std::set<std::string_view> known = {
      "alignas", "auto", "bool", "break", "case", "char", "class", "const", "constexpr", "continue", "default", "do", "double", "else", "enum",
      "extern", "false", "float", "for", "half", "if", "inline", "int", "int32_t", "int64_t", "long", "namespace", "return", "short", "signed",
      "sizeof", "size_t", "static", "static_cast", "struct", "switch", "template", "true", "typename", "uint32_t", "unsigned", "using", "void",
      "volatile", "while", "blockDim", "blockIdx", "dim3", "gridDim", "threadIdx", "warpSize", "float2", "float4", "int4", "at", "torch",
      "Tensor", "data_ptr", "size", "numel", "empty_like", "zeros_like", "empty", "zeros", "fmaxf", "fminf", "expf", "tanhf", "sqrtf", "rsqrtf",
      "logf", "powf", "max", "min"};
  return starts(word, "__") || starts(word, "atomic") || known.count(word) != 0;
}

// A word, and whether it is a name that somebody chose.
struct Part {
  std::string_view word;
  bool chosen = false;
};

std::vector<Part> parts_of(const Words& words) {
  std::vector<Part> out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool member = i > 0 && (words[i - 1] == "." || words[i - 1] == "->" || words[i - 1] == "::");
    out.push_back({words[i], is_name(words[i]) && !member && !is_fixed(words[i])});
  }
  return out;
}

// Hashes of every `width` parts in a row (of all, where there are fewer). Chosen names are numbered anew in each: one name may mean two
// things in two functions.
std::set<std::uint64_t> shingles_of(const std::vector<Part>& parts, std::size_t width) {
  std::set<std::uint64_t> out;
  for (std::size_t i = 0; i < parts.size() && (i == 0 || i + width <= parts.size()); ++i) {
    std::map<std::string_view, std::size_t> number;
    std::uint64_t hash = kStart;
    for (std::size_t k = i; k < std::min(parts.size(), i + width); ++k) {
      if (parts[k].chosen) hash = mixed(hash, "name " + std::to_string(number.emplace(parts[k].word, number.size()).first->second));
      else hash = mixed(hash, parts[k].word);
    }
    out.insert(hash);
  }
  return out;
}

std::vector<Part> skeleton_of(const Words& words) {
  static const std::set<std::string_view> control = {"for", "while", "do", "if", "else", "switch", "return", "break", "continue", "{", "}",
                                                      "__global__", "__device__", "__shared__", "<<<", ">>>"};
  std::vector<Part> out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i], next = i + 1 < words.size() ? words[i + 1] : "";
    if (control.count(word) || starts(word, "__sync") || starts(word, "__shfl") || starts(word, "atomic")) out.push_back({word});
    else if (word == "=" || (word.size() > 1 && word.back() == '=' && word != "==" && word != "!=" && word != "<=" && word != ">=")) out.push_back({word});
    else if (is_name(word) && next == "(") out.push_back({"call"});
  }
  return out;
}

// The arguments from `at` on until the closing `end` of this level: token ranges between commas.
std::vector<Words> arguments(const Words& words, std::size_t& at, std::string_view end) {
  std::vector<Words> out(1);
  int depth = 0;
  for (; at < words.size(); ++at) {
    const std::string_view word = words[at];
    if (depth == 0 && word == end) break;
    if (word == "(" || word == "[" || word == "{") ++depth;
    if (word == ")" || word == "]" || word == "}") --depth;
    if (depth < 0 || word == ";") break;
    if (depth == 0 && word == ",") out.emplace_back();
    else out.back().push_back(word);
  }
  if (out.size() == 1 && out[0].empty()) out.clear();
  return out;
}

int number_of(std::string_view word) {
  while (!word.empty() && (word.back() == 'u' || word.back() == 'U' || word.back() == 'l' || word.back() == 'L')) word.remove_suffix(1);
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size() ? value : 0;
}

// name → what it is set to: "const int threads = 256", "#define BLOCK 256", "dim3 block(16, 16)", "dim3 grid = dim3(…)".
struct Values {
  std::map<std::string_view, int> numbers;
  std::map<std::string_view, std::vector<Words>> shapes;
};
Values values_of(const Words& words) {
  Values out;
  for (std::size_t i = 0; i + 3 < words.size(); ++i) {
    if (words[i] == "define" && is_name(words[i + 1]) && number_of(words[i + 2])) out.numbers.emplace(words[i + 1], number_of(words[i + 2]));
    if (is_name(words[i]) && words[i + 1] == "=" && number_of(words[i + 2]) && (words[i + 3] == ";" || words[i + 3] == ","))
      out.numbers.emplace(words[i], number_of(words[i + 2]));
    if (words[i] != "dim3") continue;
    std::size_t at = i + 1;
    while (at + 2 < words.size() && is_name(words[at])) {  // each declarator
      const std::string_view name = words[at++];
      if (words[at] == "=" && words[at + 1] == "dim3") at += 2;
      if (at >= words.size() || (words[at] != "(" && words[at] != "{")) break;
      const std::string_view end = words[at] == "(" ? ")" : "}";
      out.shapes.emplace(name, arguments(words, ++at, end));
      if (at + 1 >= words.size() || words[at + 1] != ",") break;
      at += 2;
    }
  }
  return out;
}

// Axes and, where numbers say so, the product of a launch's grid or block.
std::pair<int, int> shape_of(const Words& expression, const Values& values) {
  std::vector<Words> axes;
  if (expression.size() > 2 && expression[0] == "dim3") {
    std::size_t at = 2;
    axes = arguments(expression, at, ")");
  } else if (const auto named = expression.size() == 1 ? values.shapes.find(expression[0]) : values.shapes.end(); named != values.shapes.end()) {
    axes = named->second;
  } else {
    axes = {expression};
  }
  int product = 1;
  for (const Words& one : axes) {
    int value = one.size() == 1 ? number_of(one[0]) : 0;
    if (const auto found = one.size() == 1 ? values.numbers.find(one[0]) : values.numbers.end(); found != values.numbers.end()) value = found->second;
    product = value > 0 && product <= (1 << 20) ? product * value : 0;
  }
  return {std::clamp<int>(static_cast<int>(axes.size()), 1, 3), product};
}

bool loop_halves(const Words& words, std::size_t i) {  // for (int s = …; s > 0; s >>= 1) or s /= 2
  for (std::size_t k = i; k < std::min(words.size(), i + 40) && words[k] != "{"; ++k)
    if (words[k] == ">>=" || (words[k] == "/=" && k + 1 < words.size() && words[k + 1] == "2")) return true;
  return false;
}

}  // namespace

const char* reduction_name(Reduction reduction) {
  switch (reduction) {
    case Reduction::kNone: return "none";
    case Reduction::kSerial: return "serial";
    case Reduction::kSharedTree: return "shared_tree";
    case Reduction::kWarpShuffle: return "warp_shuffle";
    case Reduction::kAtomic: return "atomic";
    case Reduction::kLibrary: return "library";
  }
  return "";
}

std::string Features::key() const {
  return fmt::format("kernels {} launches {} axes {} block {} shared {}{} atomics {} vector {} stride {} tensor {} reduction {}", kernels, launches,
                     fmt::join(grid_axes, ","), fmt::join(block_sizes, ","), static_shared ? "s" : "-", dynamic_shared ? "d" : "-", atomics, vectorised,
                     grid_stride, tensor_cores, reduction_name(reduction));
}

Features features(std::string_view source) {
  const Words words = words_of(source);
  const Values values = values_of(words);
  Features out;
  bool halving = false, shuffles = false, library = false, in_loop_sum = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i], next = i + 1 < words.size() ? words[i + 1] : "", before = i > 0 ? words[i - 1] : "";
    if (word == "__global__") ++out.kernels;
    if (word == "__shared__") (before == "extern" ? out.dynamic_shared : out.static_shared) = true;
    if (starts(word, "atomic") && next == "(") out.atomics = true;
    if (starts(word, "__shfl")) shuffles = true;
    if (word == "float4" || word == "float2" || word == "int4" || word == "half2" || word == "__half2" || word == "double2") out.vectorised = true;
    if (word == "wmma" || word == "mma_sync" || starts(word, "mma.")) out.tensor_cores = true;
    if ((word == "cub" || word == "thrust") && next == "::") library = true;
    if (word == "for" && loop_halves(words, i)) halving = true;
    if (word == "+=" && (next == "blockDim" || next == "gridDim" || next == "stride")) out.grid_stride = true;
    if (word == "for")
      for (std::size_t k = i; k < std::min(words.size(), i + 60); ++k)
        in_loop_sum = in_loop_sum || ((words[k] == "+=" && k > i + 8) || words[k] == "fmaxf" || words[k] == "fmaf");
    if (word != "<<<") continue;
    ++out.launches;
    std::size_t at = i + 1;
    const std::vector<Words> launch = arguments(words, at, ">>>");
    if (launch.size() < 2) continue;
    out.grid_axes.push_back(shape_of(launch[0], values).first);
    const auto [axes, threads] = shape_of(launch[1], values);
    out.grid_axes.push_back(axes);
    out.block_sizes.push_back(threads);
  }
  out.reduction = library                       ? Reduction::kLibrary
                  : shuffles                    ? Reduction::kWarpShuffle
                  : halving && out.static_shared + out.dynamic_shared > 0 ? Reduction::kSharedTree
                  : out.atomics                 ? Reduction::kAtomic
                  : in_loop_sum                 ? Reduction::kSerial
                                                : Reduction::kNone;
  return out;
}

Implementation implementation(std::string_view source, double speed) {
  const Words words = words_of(source);
  return {features(source), shingles_of(parts_of(words), 7), shingles_of(skeleton_of(words), 5), speed};
}

double similarity(const Implementation& a, const Implementation& b) {
  const auto jaccard = [](const std::set<std::uint64_t>& x, const std::set<std::uint64_t>& y) {
    std::size_t both = 0;
    for (const std::uint64_t one : x) both += y.count(one);
    const std::size_t either = x.size() + y.size() - both;
    return either == 0 ? 1.0 : static_cast<double>(both) / static_cast<double>(either);
  };
  return (jaccard(a.shingles, b.shingles) + jaccard(a.skeleton, b.skeleton)) / 2;
}

std::vector<int> clusters(const std::vector<Implementation>& all, const ClusterConfig& config) {
  std::vector<std::size_t> parent(all.size());
  std::iota(parent.begin(), parent.end(), 0);
  const auto root = [&](std::size_t i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  };
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (root(i) != root(k) && (!config.by_features || all[i].features.key() == all[k].features.key()) && similarity(all[i], all[k]) >= config.similarity)
        parent[root(i)] = root(k);
  std::map<std::size_t, int> number;
  std::vector<int> out;
  for (std::size_t i = 0; i < all.size(); ++i) out.push_back(number.emplace(root(i), static_cast<int>(number.size())).first->second);
  return out;
}

std::vector<std::size_t> choose_pool(const std::vector<Implementation>& all, const std::vector<int>& cluster, const PoolConfig& config) {
  struct Cluster {
    std::size_t members = 0, best = 0;
  };
  std::map<int, Cluster> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    Cluster& c = found[cluster[i]];
    if (c.members++ == 0 || all[i].speed > all[c.best].speed) c.best = i;
  }
  std::vector<Cluster> order;
  for (const auto& [_, c] : found) order.push_back(c);
  const bool one = config.most == 1;  // keep-one-best asks for the fastest, not for the most frequent way
  std::stable_sort(order.begin(), order.end(), [&](const Cluster& a, const Cluster& b) {
    if (!one && a.members != b.members) return a.members > b.members;
    return all[a.best].speed > all[b.best].speed;
  });
  std::vector<std::size_t> pool;
  for (const Cluster& c : order)
    if (pool.size() < config.most) pool.push_back(c.best);
  while (pool.size() < std::min({config.least, config.most, all.size()})) {
    std::size_t chosen = all.size();
    double nearest = 2;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (std::find(pool.begin(), pool.end(), i) != pool.end()) continue;
      double most = 0;
      for (const std::size_t p : pool) most = std::max(most, similarity(all[i], all[p]));
      if (most < nearest) {
        nearest = most;
        chosen = i;
      }
    }
    pool.push_back(chosen);
  }
  return pool;
}

std::size_t draw_target(std::size_t size, std::string_view prompt, std::int64_t epoch, std::uint64_t seed) {
  std::uint64_t x = mixed(mixed(mixed(kStart, prompt), std::to_string(epoch)), std::to_string(seed));
  // SplitMix64's finaliser: FNV's low bits alone are not uniform.
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  x ^= x >> 31;
  return static_cast<std::size_t>(x % size);
}

Diversity diversity(const std::vector<int>& cluster) {
  std::map<int, int> members;
  for (const int c : cluster) ++members[c];
  Diversity out{static_cast<int>(members.size()), 0, cluster.empty() ? 0.0 : 1.0};
  for (const auto& [_, n] : members) {
    const double share = n / static_cast<double>(cluster.size());
    out.entropy -= share * std::log(share);
  }
  if (!cluster.empty()) out.effective = std::exp(out.entropy);
  return out;
}

}  // namespace musacoder::synth
