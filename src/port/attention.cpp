// What a person has to look at: words and headers of attention.toml, and assumptions about the warp in
// numbers.
#include <algorithm>
#include <cctype>
#include <set>

#include "port/sheet.h"

namespace musacoder::port {
namespace {

constexpr std::size_t kCallTokens = 512;  // a call of a shuffle with more is looked at no further

constexpr const char* kWarpWhy =
    "assumes a warp of 32 threads, which S5000 has but S80 and S4000 (128) have not; use warpSize";
constexpr const char* kMaskWhy =
    "a mask of 32 bits covers a warp of 32 threads (S5000), not one of 128 (S80, S4000)";

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// "32u" → 32, "0x1F" → 31; -1 for what is no integer.
long long value_of(std::string_view number) {
  std::string digits = lower(number);
  while (!digits.empty() && (digits.back() == 'u' || digits.back() == 'l')) digits.pop_back();
  digits.erase(std::remove(digits.begin(), digits.end(), '\''), digits.end());
  const bool hex = digits.starts_with("0x");
  const std::string_view body = std::string_view(digits).substr(hex ? 2 : 0);
  if (body.empty() || body.size() > 15 ||
      body.find_first_not_of(hex ? "0123456789abcdef" : "0123456789") != std::string_view::npos)
    return -1;
  return std::stoll(std::string(body), nullptr, hex ? 16 : 10);
}

// Begins as the names of a dialect and its libraries do.
bool looks_like(std::string_view word, Dialect dialect) {
  static constexpr std::string_view kCuda[] = {"cuda",   "cublas",   "cublasLt", "cudnn", "cufft",
                                               "curand", "cusparse", "cusolver", "cupti", "nccl",
                                               "nvrtc",  "nvtx",     "cu"};
  static constexpr std::string_view kMusa[] = {"musa",   "mublas",   "mublasLt", "mudnn", "mufft",
                                               "murand", "musparse", "musolver", "mupti", "mccl",
                                               "mtrtc",  "mttx",     "mu"};
  auto begins = [&](std::string_view begin) {
    return word.size() > begin.size() && word.starts_with(begin) && word[begin.size()] >= 'A' &&
           word[begin.size()] <= 'Z';
  };
  return dialect == Dialect::kCuda ? std::any_of(std::begin(kCuda), std::end(kCuda), begins)
                                   : std::any_of(std::begin(kMusa), std::end(kMusa), begins);
}

// A name that speaks of threads within a block or warp: threadIdx.x, tid, lane_id, warpId.
bool is_thread_name(std::string_view word) {
  static constexpr std::string_view kWhole[] = {"x", "y", "z", "t", "tx", "ty", "tz", "idx", "tidx"};
  if (std::find(std::begin(kWhole), std::end(kWhole), word) != std::end(kWhole)) return true;
  const std::string name = lower(word);
  return name.find("tid") != std::string::npos || name.find("thread") != std::string::npos ||
         name.find("lane") != std::string::npos || name.find("warp") != std::string::npos;
}

class CppAttention {
 public:
  CppAttention(Sheet& sheet, std::string_view code, std::size_t offset, const std::vector<Token>& tokens)
      : sheet_(sheet), code_(code), offset_(offset), tokens_(tokens) {
    uses_shuffles_ = code.find("__shfl") != std::string_view::npos;
  }

  void run() {
    find_declared();
    if (sheet_.to() == Dialect::kCuda) {
      for (std::size_t i = 0; i < tokens_.size(); ++i)
        if (tokens_[i].kind == Kind::kWord && text_before(i) != "." && text_before(i) != "->") unknown(i);
      return;
    }
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const Token& token = tokens_[i];
      if (token.kind == Kind::kComment) continue;
      track_device_code(i);
      if (token.kind == Kind::kHeader) {
        if (const auto* rule = sheet_.table().header_attention(token.body(code_)))
          attend(i, rule->kind, std::string(token.body(code_)), rule->why);
      } else if (token.kind == Kind::kWord) {
        word(i);
      } else if (token.kind == Kind::kNumber) {
        number(i);
      } else if (text(i) == "<<<" && device_depth_ > 0) {
        attend(i, "dynamic_parallelism", "<<<", "a launch from a kernel: no counterpart is documented");
      }
    }
  }

 private:
  std::string_view text(std::size_t i) const {
    return i == kNone || i >= tokens_.size() ? std::string_view() : tokens_[i].text(code_);
  }
  std::string_view text_before(std::size_t i) const { return text(token_before(tokens_, i)); }

  void attend(std::size_t i, const std::string& kind, std::string what, std::string why) {
    sheet_.attend(offset_ + tokens_[i].begin, kind, std::move(what), std::move(why));
  }

  // Names that the text declares: behind a type, or behind #define.
  void find_declared() {
    for (std::size_t i = 1; i < tokens_.size(); ++i) {
      if (tokens_[i].kind != Kind::kWord || !looks_like(text(i), other(sheet_.to()))) continue;
      const std::size_t before = token_before(tokens_, i);
      const std::string_view mark = text(before);
      const bool behind_word = before != kNone && tokens_[before].kind == Kind::kWord && mark != "return" &&
                               mark != "else" && mark != "case";
      if (behind_word || mark == "*" || mark == "&" || mark == ">") declared_.insert(text(i));
    }
  }

  // Inside the body of a __global__ or __device__ function.
  void track_device_code(std::size_t i) {
    const std::string_view t = text(i);
    if (t == "__global__" || t == "__device__")
      pending_ = true;
    else if (t == ";" && device_depth_ == 0)
      pending_ = false;
    else if (t == "{" && (pending_ || device_depth_ > 0)) {
      ++device_depth_;
      pending_ = false;
    } else if (t == "}" && device_depth_ > 0)
      --device_depth_;
  }

  void word(std::size_t i) {
    const std::string_view word = text(i);
    const bool member = text_before(i) == "." || text_before(i) == "->";
    const AttentionRule* rule = member ? nullptr : sheet_.table().word_attention(word, false);
    // A local name such as `texture` or `surface` is no type.
    const bool needs_angle = word == "texture" || word == "surface";
    if (rule && (!needs_angle || text(token_after(tokens_, i)) == "<")) {
      // Uses of a constant say no more than its first.
      const bool again = rule->kind == "warp_size" && !told_.insert(word).second;
      if (!again && (word != "wmma" || text(token_after(tokens_, i)) == "::"))
        attend(i, rule->kind, std::string(word), rule->why);
    }
    if (word.starts_with("__shfl")) shuffle(i);
    if (!rule && !member) unknown(i);
  }

  // A name that begins as the left dialect's do, is in no list and is not the text's own.
  void unknown(std::size_t i) {
    const std::string_view word = text(i);
    if (!looks_like(word, other(sheet_.to())) || declared_.count(word) || text_before(i) == "::" ||
        sheet_.table().name(word, sheet_.to()))
      return;
    attend(i, "unknown_name", std::string(word),
           fmt::format("begins as {}'s names do, but is in no list of them; it stays as it is",
                       sheet_.to() == Dialect::kMusa ? "CUDA" : "MUSA"));
  }

  // __shfl_*_sync(mask, value, lane, width)
  void shuffle(std::size_t i) {
    std::size_t at = token_after(tokens_, i);
    if (text(at) != "(") return;
    int depth = 0, arguments = 1;
    std::size_t last = kNone;
    for (; at < std::min(tokens_.size(), i + kCallTokens); ++at) {
      const std::string_view t = text(at);
      if (t == "(" || t == "[" || t == "{") ++depth;
      if ((t == ")" || t == "]" || t == "}") && --depth == 0) break;
      if (t == "," && depth == 1) {
        ++arguments;
        last = token_after(tokens_, at);
      }
    }
    if (arguments == 4 && last != kNone)
      attend(i, "warp_size", fmt::format("{}, width {}", text(i), text(last)), kWarpWhy);
  }

  void number(std::size_t i) {
    const long long value = value_of(text(i));
    const std::size_t before = token_before(tokens_, i);
    const std::string_view mark = text(before);
    if (value == 0xffffffffLL) return attend(i, "warp_size", std::string(text(i)), kMaskWhy);
    const std::string_view left = before == kNone ? std::string_view() : text_before(before);
    const bool by_lane = ((value == 32 && (mark == "%" || mark == "/")) || (value == 31 && mark == "&") ||
                          (value == 5 && mark == ">>")) &&
                         is_thread_name(left);
    const bool named = value == 32 && (mark == "=" ? lower(left).find("warp") != std::string::npos
                                                   : lower(mark).find("warp") != std::string::npos);
    const std::size_t after = token_after(tokens_, i);
    const bool halving = value == 16 && uses_shuffles_ && mark == "=" && text(after) == ";" &&
                         text(token_after(tokens_, after)) == left;
    if (by_lane || named || halving)
      attend(i, "warp_size", fmt::format("{} {} {}", left, mark, text(i)), kWarpWhy);
  }

  Sheet& sheet_;
  std::string_view code_;
  std::size_t offset_;
  const std::vector<Token>& tokens_;
  std::set<std::string_view> declared_, told_;
  bool uses_shuffles_ = false, pending_ = false;
  int device_depth_ = 0;
};

// Flags of nvcc that mcc, which is based on clang, does not know.
bool is_nvcc_flag(std::string_view flag) {
  static constexpr std::string_view kBegin[] = {"-arch=",
                                                "--gpu-architecture",
                                                "-gencode",
                                                "--generate-code",
                                                "-code=",
                                                "--use_fast_math",
                                                "-use_fast_math",
                                                "-Xptxas",
                                                "--ptxas-options",
                                                "-Xcompiler",
                                                "--expt-",
                                                "-expt-",
                                                "-lineinfo",
                                                "--generate-line-info",
                                                "-maxrregcount",
                                                "--maxrregcount",
                                                "--extended-lambda",
                                                "-extended-lambda",
                                                "-ccbin",
                                                "--compiler-bindir",
                                                "-rdc",
                                                "--relocatable-device-code",
                                                "-dlto"};
  return std::any_of(std::begin(kBegin), std::end(kBegin),
                     [&](std::string_view begin) { return flag.starts_with(begin); });
}

}  // namespace

void attend_cpp(Sheet& sheet, std::string_view code, std::size_t offset, const std::vector<Token>& tokens) {
  CppAttention(sheet, code, offset, tokens).run();
}

void attend_python(Sheet& sheet, std::string_view code, std::size_t offset,
                   const std::vector<Token>& tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    const std::size_t at = offset + token.begin;
    if (token.kind == Kind::kString) {
      const std::string_view body = token.body(code);
      // One flag a string, or several with blanks between.
      for (std::size_t begin = 0; begin < body.size();) {
        const std::size_t end = std::min(body.find(' ', begin), body.size());
        const std::string_view flag = body.substr(begin, end - begin);
        if (is_nvcc_flag(flag))
          sheet.attend(at, "compiler_flag", std::string(flag),
                       "mcc is based on clang and does not know nvcc's flags; architectures are "
                       "--offload-arch=mp_31, fast mathematics is -ffast-math");
        begin = end + 1;
      }
      continue;
    }
    if (token.kind != Kind::kWord) continue;
    const std::string_view word = token.text(code);
    const std::size_t before = token_before(tokens, i),
                      two_before = before == kNone ? kNone : token_before(tokens, before);
    const bool member = before != kNone && tokens[before].text(code) == ".";
    const std::string_view owner =
        two_before == kNone || !member ? std::string_view() : tokens[two_before].text(code);
    if (word == "compile" && owner == "torch")
      sheet.attend(at, "torch_compile", "torch.compile",
                   "torch.compile has no baseline on MUSA; check that the backend is there");
    else if (word == "cuda" && before != kNone && tokens[before].text(code) == "import" &&
             two_before != kNone && tokens[two_before].text(code) == "torch")
      sheet.attend(at, "import", "from torch import cuda",
                   "imported by its name, which stays; write torch.cuda where it is used");
    else if (word == "cuda" && owner == "backends")
      sheet.attend(
          at, "torch_backend", "torch.backends.cuda",
          "its switches are cuBLAS's and attention's; on MUSA TF32 is torch.backends.mudnn.allow_tf32");
    else if (member)
      if (const AttentionRule* rule = sheet.table().word_attention(word, true)) {
        const std::size_t after = token_after(tokens, i);
        const std::size_t next = after == kNone ? kNone : token_after(tokens, after);
        const bool is_tf32 = next != kNone && tokens[next].text(code) == "allow_tf32";
        if (rule->kind != "torch_backend" || (!is_tf32 && (owner == "backends" || owner == "cuda")))
          sheet.attend(at, rule->kind, std::string(word), rule->why);
      }
  }
}

}  // namespace musacoder::port
