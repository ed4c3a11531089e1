#include "llm/tokenizer/tokenizer.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "base/files.h"
#include "base/terminal.h"
#include "llm/tokenizer/added_tokens.h"
#include "llm/tokenizer/tokenizer_files.h"
#include "llm/tokenizer/unicode.h"

namespace musacoder::llm {
namespace {

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  if (from.empty()) return std::string(text);
  std::string out;
  for (;;) {
    const std::size_t at = text.find(from);
    out.append(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    out.append(to);
    text.remove_prefix(at + from.size());
  }
}

std::string normalized(std::string text, const std::vector<NormalizeStep>& steps) {
  for (const NormalizeStep& step : steps) {
    switch (step.kind) {
      case NormalizeStep::kNfc:
        if (!surely_nfc(text)) text = normalize(text, NormalForm::kNfc);
        break;
      case NormalizeStep::kNfd: text = normalize(text, NormalForm::kNfd); break;
      case NormalizeStep::kNfkc: text = normalize(text, NormalForm::kNfkc); break;
      case NormalizeStep::kNfkd: text = normalize(text, NormalForm::kNfkd); break;
      case NormalizeStep::kPrepend:
        if (!text.empty()) text = step.content + text;
        break;
      case NormalizeStep::kReplace: text = replace_all(text, step.pattern, step.content); break;
    }
  }
  return text;
}

// "<0x0A>" → 10
std::optional<char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return std::nullopt;
  unsigned value = 0;
  for (const char c : token.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return std::nullopt;
    value = value * 16 + static_cast<unsigned>(digit);
  }
  return static_cast<char>(value);
}

// A run of byte tokens is a text when it is valid UTF-8 as a whole, else one U+FFFD a byte.
std::vector<std::string> byte_fallback(const std::vector<std::string>& tokens) {
  std::vector<std::string> out;
  std::string run;
  const auto flush = [&] {
    if (run.empty()) return;
    if (valid_prefix(run) == run.size()) out.push_back(run);
    else for (std::size_t i = 0; i < run.size(); ++i) out.emplace_back("\xef\xbf\xbd");
    run.clear();
  };
  for (const std::string& token : tokens) {
    if (const auto byte = byte_of_token(token)) {
      run += *byte;
    } else {
      flush();
      out.push_back(token);
    }
  }
  flush();
  return out;
}

std::string strip(const std::string& token, const DecodeStep& step) {
  std::size_t begin = 0, end = token.size();
  for (std::size_t n = 0; n < step.start && token.compare(begin, step.content.size(), step.content) == 0 && begin < end; ++n)
    begin += step.content.size();
  for (std::size_t n = 0; n < step.stop && end >= begin + step.content.size() &&
                          token.compare(end - step.content.size(), step.content.size(), step.content) == 0; ++n)
    end -= step.content.size();
  return token.substr(begin, end - begin);
}

std::string run_decoders(std::vector<std::string> tokens, const std::vector<DecodeStep>& steps) {
  for (const DecodeStep& step : steps) {
    switch (step.kind) {
      case DecodeStep::kByteFallback: tokens = byte_fallback(tokens); break;
      case DecodeStep::kFuse: {
        std::string all;
        for (const std::string& token : tokens) all += token;
        tokens = {std::move(all)};
        break;
      }
      case DecodeStep::kReplace:
        for (std::string& token : tokens) token = replace_all(token, step.pattern, step.content);
        break;
      case DecodeStep::kStrip:
        for (std::string& token : tokens) token = strip(token, step);
        break;
      case DecodeStep::kByteLevel: {
        std::string all;
        for (const std::string& token : tokens) all += from_byte_alphabet(token).value_or(token);
        tokens = {valid_utf8(all)};
        break;
      }
    }
  }
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

}  // namespace

struct Tokenizer::State {
  TokenizerSpec spec;
  bool bytes = false;                       // byte-level BPE
  std::unique_ptr<const Bpe> bpe;
  std::vector<Splitter> splitters;
  bool prefix_space = false;                // a step asks for a space before each piece
  std::size_t prefix_step = 0;              // and this many splitters come before it
  std::unique_ptr<const AddedTokenFinder> raw, in_normalized;
  std::vector<std::string> text_of;         // byte-level: the bytes of each id
  std::vector<bool> special;
  std::unordered_map<std::string, TokenId> ids;   // pieces and added tokens

  // Scratches that no thread uses at the moment.
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<Bpe::Scratch>> idle;

  // Where the tokens of a text lie, when the caller wants to know.
  struct Places {
    std::string_view text;        // the caller's
    std::vector<TokenSpan> spans;
    std::size_t begin = 0, end = 0;   // of the part that is being encoded
    void all(const std::vector<TokenId>& ids, std::size_t first) {
      for (std::size_t i = first; i < ids.size(); ++i) spans.push_back({ids[i], begin, end});
    }
  };
  Status encode_piece(std::string_view text, Bpe::Scratch& scratch, std::vector<std::string_view>& words, std::vector<std::string_view>& next,
                      std::vector<TokenId>& out, Places* places) const;
  void place_word(std::string_view word, const std::vector<TokenId>& out, std::size_t first, Places& places) const;
  Status encode(std::string_view text, const EncodeOptions& options, Bpe::Scratch& scratch, std::vector<TokenId>& out, Places* places) const;
  // An idle scratch, or a new one; give it back.
  std::unique_ptr<Bpe::Scratch> take_scratch() const;
  void give_scratch(std::unique_ptr<Bpe::Scratch> scratch) const;
};

Result<Tokenizer> Tokenizer::create(TokenizerSpec spec) {
  auto state = std::make_shared<State>();
  state->bytes = spec.byte_level();
  for (const SplitStep& step : spec.splits) {
    if (step.add_prefix_space) {
      if (state->prefix_space) return fail(Code::kUnsupported, "two pre-tokenizers with add_prefix_space");
      state->prefix_space = true;
      state->prefix_step = state->splitters.size();
    }
    switch (step.kind) {
      case SplitStep::kByteLevel:
        if (step.use_regex) state->splitters.push_back(Splitter::scanner(Scanner::kGpt2));
        break;
      case SplitStep::kDigits: {
        MC_ASSIGN_OR_RETURN(Splitter splitter, Splitter::regex(scanner_pattern(Scanner::kDigits), step.behaviour, false));
        state->splitters.push_back(std::move(splitter));
        break;
      }
      case SplitStep::kRegex: {
        MC_ASSIGN_OR_RETURN(Splitter splitter, Splitter::regex(step.pattern, step.behaviour, step.invert));
        state->splitters.push_back(std::move(splitter));
        break;
      }
      case SplitStep::kLiteral: {
        MC_ASSIGN_OR_RETURN(Splitter splitter, Splitter::literal(step.pattern, step.behaviour, step.invert));
        state->splitters.push_back(std::move(splitter));
        break;
      }
    }
  }

  // The vocabulary in BPE's alphabet. A token with a character that stands for no byte cannot come out of byte-level BPE.
  std::unordered_map<std::string, TokenId> vocabulary;
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    const std::string& token = spec.tokens[id];
    if (token.empty()) continue;
    if (!state->ids.emplace(token, static_cast<TokenId>(id)).second)
      return fail(Code::kInvalidArgument, "the vocabulary has '{}' twice", base::printable(token.substr(0, 200), false));
    if (!state->bytes) vocabulary.emplace(token, static_cast<TokenId>(id));
    else if (auto raw = from_byte_alphabet(token)) vocabulary.emplace(std::move(*raw), static_cast<TokenId>(id));
  }
  BpeOptions options{.bytes = state->bytes, .ignore_merges = spec.ignore_merges, .byte_fallback = spec.byte_fallback, .fuse_unknown = spec.fuse_unknown};
  if (!spec.unknown.empty()) {
    const auto found = state->ids.find(spec.unknown);
    if (found == state->ids.end())
      return fail(Code::kInvalidArgument, "the unknown token '{}' is not in the vocabulary", base::printable(spec.unknown.substr(0, 200), false));
    options.unknown = found->second;
  }
  state->bpe = std::make_unique<Bpe>(std::move(vocabulary), spec.merges, options);

  std::vector<AddedToken> raw, in_normalized;
  std::vector<std::string> raw_text, normalized_text;
  std::size_t size = spec.tokens.size();
  for (const AddedToken& token : spec.added) size = std::max(size, std::size_t{token.id} + 1);
  state->special.resize(size);
  spec.tokens.resize(size);
  for (const AddedToken& token : spec.added) {
    if (token.content.empty()) continue;
    spec.tokens[token.id] = token.content;
    state->ids[token.content] = token.id;
    state->special[token.id] = state->special[token.id] || token.special;
  }
  // Special ones first: of two that look the same the first is taken.
  for (const bool special : {true, false})
    for (const AddedToken& token : spec.added) {
      if (token.special != special) continue;
      (token.normalized ? in_normalized : raw).push_back(token);
      if (token.normalized) normalized_text.push_back(normalized(token.content, spec.normalizers));
      else raw_text.push_back(token.content);
    }
  if (!raw.empty()) state->raw = std::make_unique<AddedTokenFinder>(std::move(raw), std::move(raw_text));
  if (!in_normalized.empty()) state->in_normalized = std::make_unique<AddedTokenFinder>(std::move(in_normalized), std::move(normalized_text));

  if (state->bytes)
    for (const std::string& token : spec.tokens) state->text_of.push_back(from_byte_alphabet(token).value_or(token));
  state->spec = std::move(spec);
  Tokenizer tokenizer;
  tokenizer.state_ = std::move(state);
  return tokenizer;
}

Status Tokenizer::State::encode_piece(std::string_view text, Bpe::Scratch& scratch, std::vector<std::string_view>& words,
                                      std::vector<std::string_view>& next, std::vector<TokenId>& out, Places* places) const {
  std::vector<std::string> spaced;   // owns words that got a space in front
  words.assign(1, text);
  for (std::size_t i = 0;; ++i) {
    if (prefix_space && i == prefix_step) {
      spaced.reserve(words.size());
      for (std::string_view& word : words)
        if (word[0] != ' ') word = spaced.emplace_back(" " + std::string(word));
    }
    if (i == splitters.size()) break;
    next.clear();
    for (const std::string_view word : words) MC_RETURN_IF_ERROR(splitters[i].run(word, next));
    words.swap(next);
  }
  for (const std::string_view word : words) {
    const std::size_t first = out.size();
    bpe->encode(word, scratch, out);
    if (places) place_word(word, out, first, *places);
  }
  return ok();
}

// A word that is part of the caller's text is made of its tokens' bytes, one after another.
void Tokenizer::State::place_word(std::string_view word, const std::vector<TokenId>& out, std::size_t first, Places& places) const {
  const std::less_equal<const char*> before;
  const bool inside = bytes && before(places.text.data(), word.data()) && before(word.data() + word.size(), places.text.data() + places.text.size());
  std::size_t size = 0;
  for (std::size_t i = first; inside && i < out.size(); ++i) size += text_of[out[i]].size();
  if (!inside || size != word.size()) return places.all(out, first);
  auto at = static_cast<std::size_t>(word.data() - places.text.data());
  for (std::size_t i = first; i < out.size(); ++i) {
    const std::size_t end = at + text_of[out[i]].size();
    places.spans.push_back({out[i], at, end});
    at = end;
  }
}

Status Tokenizer::State::encode(std::string_view text, const EncodeOptions& options, Bpe::Scratch& scratch, std::vector<TokenId>& out,
                                Places* places) const {
  std::string repaired;
  if (valid_prefix(text) != text.size()) {
    repaired = valid_utf8(text);
    text = repaired;
  }
  const auto allowed = [&](const AddedToken& token) {
    switch (options.specials) {
      case Specials::kAll: return true;
      case Specials::kNone: return !token.special;
      case Specials::kPlain: return false;
      case Specials::kListed: return std::find(options.allowed.begin(), options.allowed.end(), token.content) != options.allowed.end();
    }
    return false;
  };
  std::vector<std::string_view> words, next;
  Status status = ok();
  const auto encode_text = [&](std::string_view part) {
    if (status && !part.empty()) status = encode_piece(part, scratch, words, next, out, places);
  };
  const auto put = [&](const std::vector<TokenId>& ids) {
    out.insert(out.end(), ids.begin(), ids.end());
    if (places) places->all(ids, 0);
  };
  // The part of the caller's text that comes next.
  const auto now_at = [&](std::size_t begin, std::size_t end) {
    if (places && repaired.empty()) places->begin = begin, places->end = end;
  };
  const auto encode_raw = [&](std::string_view part) {
    std::string changed;
    const bool only_nfc = spec.normalizers.size() == 1 && spec.normalizers[0].kind == NormalizeStep::kNfc;
    if (!spec.normalizers.empty() && !(only_nfc && surely_nfc(part))) {
      changed = normalized(std::string(part), spec.normalizers);
      if (changed == part) changed.clear();
      else part = changed;
    }
    if (!in_normalized || options.specials == Specials::kPlain) return encode_text(part);
    const std::size_t at = places ? places->begin : 0;
    in_normalized->find(part, allowed, [&](std::size_t begin, std::size_t end, const AddedToken* token) {
      if (changed.empty()) now_at(at + begin, at + end);
      if (token) put({token->id});
      else encode_text(part.substr(begin, end - begin));
    });
  };
  if (options.template_tokens) put(spec.before);
  if (places) places->end = text.size();
  if (!repaired.empty() && places) places->end = places->text.size();
  if (!raw || options.specials == Specials::kPlain) {
    encode_raw(text);
  } else {
    raw->find(text, allowed, [&](std::size_t begin, std::size_t end, const AddedToken* token) {
      now_at(begin, end);
      if (token) put({token->id});
      else encode_raw(text.substr(begin, end - begin));
    });
  }
  if (places) places->begin = places->end = places->text.size();
  if (options.template_tokens) put(spec.after);
  return status;
}

std::unique_ptr<Bpe::Scratch> Tokenizer::State::take_scratch() const {
  std::lock_guard lock(mutex);
  if (idle.empty()) return std::make_unique<Bpe::Scratch>();
  auto scratch = std::move(idle.back());
  idle.pop_back();
  return scratch;
}

void Tokenizer::State::give_scratch(std::unique_ptr<Bpe::Scratch> scratch) const {
  std::lock_guard lock(mutex);
  idle.push_back(std::move(scratch));
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  auto scratch = state_->take_scratch();
  std::vector<TokenId> out;
  out.reserve(text.size() / 3 + 8);
  const Status status = state_->encode(text, options, *scratch, out, nullptr);
  state_->give_scratch(std::move(scratch));
  if (!status) return tl::unexpected<Error>(status.error());
  return out;
}

Result<std::vector<TokenSpan>> Tokenizer::encode_spans(std::string_view text, const EncodeOptions& options) const {
  auto scratch = state_->take_scratch();
  std::vector<TokenId> out;
  State::Places places{.text = text};
  const Status status = state_->encode(text, options, *scratch, out, &places);
  state_->give_scratch(std::move(scratch));
  if (!status) return tl::unexpected<Error>(status.error());
  return std::move(places.spans);
}

Result<std::vector<std::vector<TokenId>>> Tokenizer::encode_batch(const std::vector<std::string>& texts, const EncodeOptions& options,
                                                                  int threads) const {
  std::vector<std::vector<TokenId>> result(texts.size());
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  Status status = ok();
  const auto work = [&] {
    for (std::size_t i = next++; i < texts.size(); i = next++) {
      auto ids = encode(texts[i], options);
      if (ids) {
        result[i] = std::move(*ids);
        continue;
      }
      std::lock_guard lock(mutex);
      if (status) status = tl::unexpected<Error>(ids.error());
    }
  };
  const auto cores = static_cast<std::size_t>(threads > 0 ? threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < std::min(cores, texts.size()); ++i) others.emplace_back(work);
  work();
  for (auto& thread : others) thread.join();
  if (!status) return tl::unexpected<Error>(status.error());
  return result;
}

std::string Tokenizer::decode(const std::vector<TokenId>& ids, bool skip_special) const {
  const State& s = *state_;
  const auto skipped = [&](TokenId id) { return id >= s.spec.tokens.size() || s.spec.tokens[id].empty() || (skip_special && s.special[id]); };
  if (s.bytes) {
    std::string bytes;
    for (const TokenId id : ids)
      if (!skipped(id)) bytes += s.text_of[id];
    return valid_prefix(bytes) == bytes.size() ? bytes : valid_utf8(bytes);
  }
  std::vector<std::string> tokens;
  for (const TokenId id : ids)
    if (!skipped(id)) tokens.push_back(s.spec.tokens[id]);
  if (!s.spec.decoders.empty()) return run_decoders(std::move(tokens), s.spec.decoders);
  std::string text;
  for (const std::string& token : tokens) text += (text.empty() ? "" : " ") + token;
  return text;
}

std::string Tokenizer::token_bytes(TokenId id) const {
  if (!state_->bytes) return decode({id});
  return id < state_->text_of.size() ? state_->text_of[id] : "";
}

std::size_t Tokenizer::size() const { return state_->spec.tokens.size(); }
std::string_view Tokenizer::piece(TokenId id) const { return id < size() ? std::string_view(state_->spec.tokens[id]) : std::string_view(); }
bool Tokenizer::is_special(TokenId id) const { return id < size() && state_->special[id]; }
const TokenizerSpec& Tokenizer::spec() const { return state_->spec; }

std::optional<TokenId> Tokenizer::id_of(std::string_view piece) const {
  const auto found = state_->ids.find(std::string(piece));
  return found == state_->ids.end() ? std::nullopt : std::optional(found->second);
}

std::string Tokenizer::named(const std::string& name) const {
  const auto found = state_->spec.named.find(name);
  return found == state_->spec.named.end() ? "" : found->second;
}

std::optional<TokenId> Tokenizer::named_id(const std::string& name) const {
  const std::string text = named(name);
  return text.empty() ? std::nullopt : id_of(text);
}

std::string StreamDecoder::put(TokenId id) {
  if (!tokenizer_.state_->bytes) {
    if (tokenizer_.piece(id).empty() || (skip_special_ && tokenizer_.is_special(id))) return "";
    // The text of the window so far is certain once it does not end in half a character.
    window_.push_back(id);
    std::string text = tokenizer_.decode(window_, skip_special_);
    const bool byte = byte_of_token(tokenizer_.piece(id)).has_value();
    if (byte || text.size() <= sent_.size() || text.compare(0, sent_.size(), sent_) != 0) return "";
    std::string fresh = text.substr(sent_.size());
    // One token stays, so that the next is decoded as one that follows.
    window_ = {id};
    sent_ = tokenizer_.decode(window_, skip_special_);
    return fresh;
  }
  if (id >= tokenizer_.size() || (skip_special_ && tokenizer_.is_special(id))) return "";
  waiting_ += tokenizer_.state_->text_of[id];
  const std::size_t tail = incomplete_tail(waiting_);
  std::string fresh = valid_utf8(std::string_view(waiting_).substr(0, waiting_.size() - tail));
  waiting_.erase(0, waiting_.size() - tail);
  return fresh;
}

std::string StreamDecoder::end() {
  std::string rest = valid_utf8(waiting_);
  if (!tokenizer_.state_->bytes) {
    const std::string text = tokenizer_.decode(window_, skip_special_);
    if (text.size() > sent_.size()) rest = text.substr(sent_.size());
  }
  waiting_.clear();
  window_.clear();
  sent_.clear();
  return rest;
}

}  // namespace musacoder::llm
