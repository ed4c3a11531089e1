#include "synth/mutation.h"

#include <algorithm>
#include <regex>
#include <set>

#include "port/tokens.h"
#include "synth/seeded.h"

namespace musacoder::synth {
namespace {

enum class Where {
  kSource,       // strings that define kernels
  kDeclaration,  // strings that only declare functions
  kPython,       // everything but strings and comments
};

struct Rule {
  const char* name;
  const char* about;
  Where where;
  const char* pattern;  // ECMAScript, over the text with comments blanked
  const char* to;       // what the whole match becomes; $1 …: groups
  const char* fault;
};

// clang-format off
constexpr Rule kRules[] = {
    {"bounds_removed", "bounds", Where::kSource, R"(if\s*\(([^(){};]*>=[^(){};]*)\)\s*\{?\s*return;\s*\}?)", "",
     "The check that ends threads beyond the last element is gone, so the last block reads and writes outside the tensors."},
    {"bounds_always", "bounds", Where::kSource, R"(if\s*\(\s*\w+\s*<\s*\w+\s*(&&\s*\w+\s*<\s*\w+\s*)*\)(?!\s*return))", "if (true)",
     "The condition that keeps an index inside its tensor is always true, so indices beyond the end are used."},
    {"bounds_off_by_one", "bounds", Where::kSource, R"((if\s*\([^(){};]*)(>=)([^(){};]*\)\s*\{?\s*return))", "$1>$3",
     "The guard compares with > instead of >=, so one thread works on the element just past the end."},
    {"loop_one_too_far", "bounds", Where::kSource, R"((for\s*\([^;{}]*;\s*\w+\s*)<(\s*\w+\s*;))", "$1<=$2",
     "The loop runs to <= instead of <, one element too far."},
    {"loop_one_short", "bounds", Where::kSource, R"((for\s*\([^;{}]*;\s*\w+\s*<\s*)(\w+)(\s*;))", "$1$2 - 1$3",
     "The loop ends one element early, so the last one is left out."},
    {"loop_late_start", "bounds", Where::kSource, R"((for\s*\(\s*(?:int|long|size_t|int64_t|unsigned|auto|long long)\s+\w+\s*=\s*)0(\s*;))", "$011$2",
     "The loop begins at 1, so the first element is left out."},
    {"index_lost", "stride", Where::kSource, R"(blockIdx\.x\s*\*\s*blockDim\.x\s*\+\s*threadIdx\.x)", "blockIdx.x + threadIdx.x",
     "The global index does not multiply the block's number by its size, so blocks overlap and most elements are never written."},
    {"stride_wrong", "stride", Where::kSource, R"((\b[A-Za-z_]\w*\s*\*\s*)([A-Za-z_]\w*)(\s*\+\s*[A-Za-z_]\w*\s*\]))", "$1($2 + 1)$3",
     "Rows are taken to be one element longer than they are, so every row but the first is read or written at the wrong place."},
    {"grid_stride_wrong", "stride", Where::kSource, R"(\+=\s*blockDim\.x\s*\*\s*gridDim\.x)", "+= blockDim.x",
     "The loop steps by the size of a block instead of the whole grid, so blocks do each other's elements again."},
    {"step_doubled", "stride", Where::kSource, R"(\+=\s*(blockDim\.x|\d{2,}|[A-Z_]{4,}|[kK][A-Z]\w+)(\s*\)))", "+= 2 * $1$2",
     "The loop steps over twice as many elements as there are threads, so every other part is left out."},
    {"axis_swapped", "axis", Where::kSource, R"(\[\s*([A-Za-z_]\w*)\s*\*\s*([A-Za-z_]\w*)\s*\+\s*([A-Za-z_]\w*)\s*\])", "[$3 * $2 + $1]",
     "Row and column change places in the index, so the transposed element is taken."},
    {"size_axis", "axis", Where::kSource, R"(\.size\(0\))", ".size(1)",
     "The host code asks for the size of axis 1 where it means axis 0."},
    {"size_axis_back", "axis", Where::kSource, R"(\.size\(1\))", ".size(0)",
     "The host code asks for the size of axis 0 where it means axis 1."},
    {"block_axis", "axis", Where::kSource, R"(blockIdx\.y)", "blockIdx.x",
     "The block's position along y is taken from x, so blocks work on the wrong part."},
    {"barrier_removed", "barrier", Where::kSource, R"(__syncthreads\(\);)", "",
     "A barrier is missing: threads read shared memory before the others have written it."},
    {"barrier_divergent", "barrier", Where::kSource, R"(__syncthreads\(\);)", "if (threadIdx.x < 16) __syncthreads();",
     "The barrier stands in a branch that only some threads of the block take."},
    {"atomic_removed", "race", Where::kSource, R"(atomicAdd\(\s*([^,;]+),\s*([^;]+)\);)", "*($1) += $2;",
     "Several threads add to the same place without an atomic operation, so additions are lost."},
    {"shared_overwritten", "race", Where::kSource, R"((\b\w+)\[threadIdx\.x\](\s*=[^=]))", "$1[threadIdx.x / 2]$2",
     "Two threads write the same word of shared memory."},
    {"init_one", "init", Where::kSource, R"((\b(?:float|double|acc_t|scalar_t|T|auto)\s+\w+\s*=\s*)0(?:\.0?f?)?(\s*;))", "$011.0f$2",
     "The accumulator starts at 1 instead of 0."},
    {"init_zero_max", "init", Where::kSource, R"((=\s*)-\s*(?:INFINITY|FLT_MAX|CUDART_INF_F|1e\d+f?|3\.4\d*e38f?|std::numeric_limits<float>::(?:max|infinity)\(\)))", "$010.0f",
     "The maximum starts at 0, so rows whose values are all negative get 0."},
    {"init_missing", "init", Where::kSource, R"((\bfloat\s+\w+)\s*=\s*0(?:\.0?f?)?\s*;)", "$1;",
     "The accumulator is never set before it is added to."},
    {"accumulate_overwrites", "formula", Where::kSource, R"((\b(?:sum|acc|total|result|value|s|part|local)\w*(?:\[[^\]]*\])*\s*)\+=)", "$1=",
     "The loop overwrites its accumulator instead of adding to it, so only the last term is left."},
    {"max_is_min", "formula", Where::kSource, R"(\bfmaxf\()", "fminf(", "The smaller value is taken where the larger one is needed."},
    {"min_is_max", "formula", Where::kSource, R"(\bfminf\()", "fmaxf(", "The larger value is taken where the smaller one is needed."},
    {"exp_base", "formula", Where::kSource, R"(\b(?:__)?expf\()", "exp2f(", "Two is raised to the power instead of e."},
    {"root_missing", "formula", Where::kSource, R"(\bsqrtf\()", "fabsf(", "The square root is not taken."},
    {"inverse_missing", "formula", Where::kSource, R"(\brsqrtf\()", "sqrtf(", "It multiplies by the root where it has to divide by it."},
    {"tanh_missing", "formula", Where::kSource, R"(\btanhf\()", "sinf(", "Another function stands where tanh is needed."},
    {"sign_wrong", "formula", Where::kSource, R"((\]\s*)\+(\s*[A-Za-z_]))", "$1-$2", "A term is subtracted that has to be added."},
    {"product_is_sum", "formula", Where::kSource, R"((\]\s*)\*(\s*[A-Za-z_]))", "$1+$2", "Two factors are added instead of multiplied."},
    {"constant_wrong", "formula", Where::kSource, R"((\b0\.\d*)(\d)(f?\b))", "$013$3", "A constant of the formula has a wrong digit."},
    {"division_missing", "formula", Where::kSource, R"((=\s*[^;=]*?\w\)?)\s*/\s*(?:\(float\)\s*)?[A-Za-z_]\w*\s*;)", "$1;", "The sum is not divided by the number of its terms."},
    {"shuffle_half", "formula", Where::kSource, R"((=\s*)(16|warpSize\s*/\s*2|WARP_SIZE\s*/\s*2)(\s*;))", "$018$3",
     "The shuffles begin at an offset of 8, so the upper half of the warp is never added."},
    {"store_dropped", "formula", Where::kSource, R"(\n\s*(?:out|output|y|dst|result|c|C|o)\w*\[[^\]\n]*\]\s*=\s*[^;\n]*;)", "\n", "A result is never written to memory."},
    {"accumulator_integer", "dtype", Where::kSource, R"(\bfloat(\s+(?:sum|acc|total|value|s|local|part)\w*\s*=))", "int$1", "The accumulator is an integer, so fractions are cut off."},
    {"value_half", "dtype", Where::kSource, R"(\bfloat(\s+\w+\s*=\s*\w+\[))", "short$1", "A floating value is kept in an integer of 16 bits."},
    {"output_dtype", "dtype", Where::kSource, R"(\.options\(\))", ".options().dtype(torch::kFloat64)", "The output has dtype float64, which nobody asked for and which does not fit the kernel's pointers."},
    {"pointer_type", "dtype", Where::kSource, R"(data_ptr<float>\(\))", "data_ptr<int>()", "The host code asks for an integer pointer of a float tensor."},
    {"block_too_large", "launch", Where::kSource, R"((\b\w*(?:thread|block|THREAD|BLOCK|Thread|Block)\w*\s*(?:=|\(|\{)\s*)(?:32|64|128|256|512|1024)(\s*[;)}]))", "$012048$2",
     "A block has 2048 threads; the limit is 1024, so the launch fails."},
    {"block_too_large_inline", "launch", Where::kSource, R"((<<<[^;>]*,\s*)(?:32|64|128|256|512|1024)(\s*>>>))", "$012048$2", "A block has 2048 threads; the limit is 1024, so the launch fails."},
    {"grid_short", "launch", Where::kSource, R"(\(\s*([^()]+?)\s*\+\s*[\w.]+\s*-\s*1\s*\)\s*/\s*([\w.]+))", "$1 / $2",
     "The number of blocks is rounded down, so the elements of the last, partial block are never computed."},
    {"grid_one", "launch", Where::kSource, R"(<<<\s*([^,;]+?)\s*,)", "<<<1,", "Only one block is launched."},
    {"block_not_warp", "launch", Where::kSource, R"((\b\w*(?:thread|THREAD|Thread)\w*\s*=\s*)(128|256|512)(\s*;))", "$01100$3", "The block's size is no multiple of 32, and no power of two, as the reduction needs it."},
    {"shared_too_small", "launch", Where::kSource, R"((__shared__\s+\w+\s+\w+\[)[^\]]+(\]))", "$018$2", "The shared array holds eight elements, and the block writes more."},
    {"shared_bytes_missing", "launch", Where::kSource, R"((<<<[^;>,]*,[^;>,]*),[^;>]*(>>>))", "$1$2", "The launch asks for no dynamic shared memory, but the kernel uses it."},
    {"added_by_torch", "legality", Where::kSource, R"(return\s+(\w+)\s*;(?=\s*\}\s*$|\s*\n\}))", "return $1.add(0);", "The host code lets PyTorch compute on the result."},
    {"scaled_by_torch", "legality", Where::kPython, R"((\n {8}return )([^\n]+))", "$1($2) * 1.0", "forward computes with a PyTorch operator."},
    {"contiguous_by_torch", "legality", Where::kPython, R"((\n {8}return )([^\n]+))", "$1torch.clone($2) + 0", "forward computes with PyTorch operators after its kernel."},
    {"input_in_place", "legality", Where::kSource, R"((\b(?:auto|torch::Tensor|at::Tensor)\s+\w+\s*=\s*)torch::empty_like\(\s*(\w+)\s*\))", "$1$2", "The output is the caller's input, which is overwritten."},
    {"semicolon_missing", "compile", Where::kSource, R"((\n[ \t]+(?:float|int|const|out|y)\b[^;\n{}]*);)", "$1", "A semicolon is missing."},
    {"brace_missing", "compile", Where::kSource, R"(\n\}\s*\n)", "\n", "A closing brace is missing."},
    {"declaration_removed", "compile", Where::kSource, R"(\n[ \t]+(?:const\s+)?int\s+\w+\s*=\s*[^;\n]*;)", "\n", "A variable is used that is no longer declared."},
    {"name_misspelt", "compile", Where::kSource, R"(\bthreadIdx\.x)", "threadIdx.X", "A name is misspelt."},
    {"type_misspelt", "compile", Where::kSource, R"(\bconst\s+float\s*\*)", "const flaot*", "A type is misspelt."},
    {"undeclared_name", "compile", Where::kSource, R"((\[\s*)([A-Za-z_]\w*)(\s*\]\s*=))", "$1$2_index$3", "The index is a name that was never declared."},
    {"function_unknown", "compile", Where::kSource, R"(\b(expf|sqrtf|fmaxf|tanhf|rsqrtf|fminf)\()", "gpu_$1(", "A function is called that does not exist."},
    {"kernel_renamed", "compile", Where::kSource, R"((__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?)(\w+)(\s*\())", "$1$2_impl$3", "The kernel has another name than the launch uses."},
    {"qualifier_missing", "compile", Where::kSource, R"(__global__\s+void)", "void", "The kernel is no __global__ function, so it cannot be launched."},
    {"declared_otherwise", "compile", Where::kDeclaration, R"(,\s*[\w:&<> ]+\s+\w+\s*\)\s*;)", ");", "The declaration in cpp_sources has fewer parameters than the definition."},
    {"declared_other_name", "compile", Where::kDeclaration, R"((torch::Tensor\s+)(\w+)(\s*\())", "$1$2_forward$3", "cpp_sources declares another function than cuda_sources defines."},
    {"declaration_type", "compile", Where::kDeclaration, R"(\((\s*)torch::Tensor)", "($01std::vector<torch::Tensor>", "The declaration takes another type than the definition."},
    {"functions_mismatch", "compile", Where::kPython, R"(functions\s*=\s*\[)", "functions=[\"forward_kernel\", ", "`functions` names one that is not defined."},
    {"class_renamed", "interface", Where::kPython, R"(class\s+ModelNew\b)", "class Model", "The class is not called ModelNew."},
    {"argument_dropped", "interface", Where::kPython, R"(,\s*(?:self\.)?[\w.]+\)(\s*\n))", ")$1", "The call passes one argument too few."},
    {"attribute_misspelt", "interface", Where::kPython, R"(self\.([a-z_]\w*)\.(weight|bias)\b)", "self.$1.$2s", "The layer has no attribute of that name."},
    {"colon_missing", "interface", Where::kPython, R"((def\s+forward\([^)]*\)[^:\n]*):)", "$1", "A colon is missing in the Python code."},
    {"method_misspelt", "interface", Where::kPython, R"(def\s+forward\()", "def foward(", "The method is not called forward."},
};

constexpr Rule kSlowRules[] = {
    {"many_launches", "slow", Where::kSource, R"(((?:\n[ \t]*)\w+(?:<[^<>;]*>)?\s*<<<[^;]*>>>\s*\([^;]*\);))", "$1$1", "The kernel is launched twice; once would do."},
    {"tiny_blocks", "slow", Where::kSource, R"((\b\w*(?:thread|block|THREAD|BLOCK|Thread|Block)\w*\s*(?:=|\(|\{)\s*)(?:128|256|512|1024)(\s*[;)}]))", "$0132$2",
     "Blocks of 32 threads leave most of a multiprocessor idle."},
    {"needless_synchronisation", "slow", Where::kSource, R"((>>>\s*\([^;]*\);))", "$1\n  cudaDeviceSynchronize();", "The host waits for the device after the launch; the stream's order is enough."},
    {"uncoalesced", "slow", Where::kSource, R"(blockIdx\.x\s*\*\s*blockDim\.x\s*\+\s*threadIdx\.x)", "threadIdx.x * gridDim.x + blockIdx.x",
     "Neighbouring threads work on elements that lie a grid apart, so each access of a warp touches 32 separate sectors."},
    {"atomics", "slow", Where::kSource, R"((\n[ \t]*)((?:out|output|y|dst|result|c|C)\w*\[[^\]\n=]*\])\s*=\s*([^;\n=]*);)", "$1atomicExch(&$2, $3);", "Every result is stored by an atomic operation though no other thread writes there."},
};
// clang-format on

// The file with everything that rules of `where` must not look at made blank; offsets stay.
std::string visible(const std::string& file, Where where) {
  std::string text(file.size(), ' ');
  for (std::size_t i = 0; i < file.size(); ++i)
    if (file[i] == '\n') text[i] = '\n';
  std::size_t at = 0;
  const auto keep = [&](std::size_t begin, std::size_t end) { std::copy(file.begin() + begin, file.begin() + end, text.begin() + begin); };
  for (const port::Token& token : port::python_tokens(file)) {
    const std::string_view body = token.body(file);
    const bool string = token.kind == port::Kind::kString, source = string && body.find("__global__") != body.npos;
    if (where == Where::kPython) {
      keep(at, token.begin);
      if (!string && token.kind != port::Kind::kComment) keep(token.begin, token.end);
      at = token.end;
    } else if (string && (where == Where::kSource ? source : !source && body.find("torch::Tensor") != body.npos)) {
      keep(token.body_begin, token.body_end);
      for (const port::Token& inner : port::cpp_tokens(body))
        if (inner.kind == port::Kind::kComment)
          for (std::size_t i = inner.begin; i < inner.end; ++i)
            if (body[i] != '\n') text[token.body_begin + i] = ' ';
    }
  }
  return text;
}

std::string one_line(std::string_view text) {
  std::string out;
  for (char c : text) {
    const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!space) out += c;
    else if (!out.empty() && out.back() != ' ') out += ' ';
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  if (out.size() > 120) out.resize(120);
  return out;
}

std::vector<Mutant> apply(const std::string& file, const std::string& text, const Rule& rule) {
  std::vector<Mutant> out;
  const std::regex pattern(rule.pattern);
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    const auto begin = static_cast<std::size_t>(it->position()), length = static_cast<std::size_t>(it->length());
    if (length == 0) continue;
    const std::string to = it->format(rule.to);
    Mutant mutant{.kind = rule.name,
                  .file = file.substr(0, begin) + to + file.substr(begin + length),
                  .before = one_line(file.substr(begin, length)),
                  .after = one_line(to),
                  .line = static_cast<int>(std::count(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(begin), '\n')) + 1,
                  .fault = rule.fault};
    // A match that begins with line ends is about the line after them.
    for (std::size_t i = begin; i < begin + length && std::string_view(" \n\t").find(file[i]) != std::string_view::npos; ++i) mutant.line += file[i] == '\n';
    if (mutant.file != file) out.push_back(std::move(mutant));
  }
  return out;
}

}  // namespace

const std::vector<MutationKind>& mutation_kinds() {
  static const std::vector<MutationKind> kinds = [] {
    std::vector<MutationKind> all;
    for (const Rule& rule : kRules) all.push_back({rule.name, rule.about});
    return all;
  }();
  return kinds;
}

std::vector<Mutant> mutants_of_kind(const std::string& file, std::string_view kind) {
  for (const Rule& rule : kRules)
    if (kind == rule.name) return apply(file, visible(file, rule.where), rule);
  return {};
}

namespace {

constexpr std::size_t kMaxFile = 64 << 10;  // std::regex recurses

template <std::size_t n>
std::vector<Mutant> draw_from(const Rule (&rules)[n], const std::string& file, std::uint64_t seed, std::size_t most) {
  if (file.size() > kMaxFile) return {};
  Seeded draw(mix(seed, "mutants"));
  const std::string views[] = {visible(file, Where::kSource), visible(file, Where::kDeclaration), visible(file, Where::kPython)};
  std::vector<std::vector<Mutant>> by_kind;
  for (const Rule& rule : rules) {
    auto found = apply(file, views[static_cast<int>(rule.where)], rule);
    if (found.empty()) continue;
    draw.shuffle(found);
    by_kind.push_back(std::move(found));
  }
  draw.shuffle(by_kind);
  std::vector<Mutant> out;
  std::set<std::string> seen = {file};
  for (std::size_t round = 0; out.size() < most; ++round) {
    bool any = false;
    for (auto& found : by_kind) {
      if (round >= found.size() || out.size() >= most) continue;
      any = true;
      if (seen.insert(found[round].file).second) out.push_back(std::move(found[round]));
    }
    if (!any) break;
  }
  return out;
}

}  // namespace

std::vector<Mutant> mutants(const std::string& file, std::uint64_t seed, std::size_t most) { return draw_from(kRules, file, seed, most); }

std::vector<Mutant> slow_variants(const std::string& file, std::uint64_t seed, std::size_t most) { return draw_from(kSlowRules, file, seed, most); }

}  // namespace musacoder::synth
