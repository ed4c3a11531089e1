// Generates text: many requests at once, joining and leaving between tokens.
//
//   MC_ASSIGN_OR_RETURN(auto engine, Engine::open("SmolLM2-135M", {}));
//   MC_ASSIGN_OR_RETURN(auto prompt, engine->tokenizer()->encode("The capital of France is"));
//   MC_ASSIGN_OR_RETURN(std::uint64_t id, engine->add({.prompt = prompt, .samples = 4, .sampling =
//   {.temperature = 0.8}})); while (!engine->idle()) {
//     MC_ASSIGN_OR_RETURN(auto events, engine->step());
//     for (const TokenEvent& e : events) fmt::print("{}", e.text);
//   }
//
// A step is one pass of the model over one token of every running sample and, up to `step_tokens`, pieces of
// the prompts of those that are joining. The samples of a request share its prompt's pass and pages, and a
// request that begins like an earlier one takes over what was read then (prefix_tree.h), as long as it is
// kept. A request starts when there is room for it to end, in the order of add(), so that none is ever thrown
// out half done.
//
// What a request gives depends on its prompt, parameters and seed only, not on what runs beside it, nor on
// step_tokens: the same bits on the same processor kind (kernels/row_ops.h), or on the same GPU kind
// (cuda_step.h says what runs there). Weights can be swapped between any two steps; every token says which
// version it is of. Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "llm/generate/sampling.h"
#include "llm/tokenizer/tokenizer.h"

namespace musacoder::llm {

class Weights;
class Lora;

struct EngineOptions {
  std::string device = "cpu";         // cuda, cuda:N: kernels/cuda/load.h
  std::string type = "keep";          // weights and cache: keep, f32, bf16
  std::string adapter;                // a peft folder of LoRA adapters; empty: none; see WeightSwap
  std::int64_t cache_tokens = 16384;  // room for keys and values, in tokens, of all running samples together
  int max_running = 64;               // samples
  int step_tokens = 256;              // rows of one step; at least max_running
  bool share_prefixes = true;         // between requests
  int prefix_states = 8;  // DeltaNet models: states kept for that, each as large as a running sample's
};

struct GenerateRequest {
  std::vector<TokenId> prompt;
  int samples = 1;
  SamplingParams sampling;
  int top_logprobs = 0;  // of each event's step; 0: none
};

enum class Finish {
  kNone,
  kStop,
  kLength
};  // kStop: an end id, a stop id or text; kLength: max_tokens or the model's positions
const char* finish_name(Finish finish);

struct TokenEvent {
  std::uint64_t request = 0;
  int sample = 0;
  TokenId token = 0;
  float logprob = 0;  // of the token under the weights at the sampling temperature, all tokens counted
  std::string
      text;  // what became certain with this token, special tokens left out; empty without a tokenizer
  Finish finish = Finish::kNone;  // the sample ends with this token
  std::int64_t version = 0;       // of the weights that gave this token's probabilities
  std::vector<TokenLogprob> top;  // the likeliest ones with their log-probabilities, as `logprob`
};

// What becomes of the keys, values and states that older weights left of running samples when weights are
// swapped. Either way requests that begin later share nothing with what was read before the swap: all they
// take over has been read with the new weights alone.
enum class SwapCache {
  // They stay: the swap costs nothing, and tokens after it follow from a mixture of both. Nothing of such a
  // request is kept for others.
  kKeep,
  // Prompts and answers so far are read again, states from zero on: tokens after it are what the new weights
  // give. Requests that shared a prefix each need room for it until one of them has read it; those for which
  // there is none wait.
  kRecompute,
};

struct WeightSwap {
  // Of the same sizes, type and device. Need not outlive the call, but its tensors are used, not copied: what
  // is written to them later acts at once.
  const Weights* weights = nullptr;
  // nullptr: none, even where there was one before. On the CPU it is kept apart and used, not copied, as the
  // weights are; on a GPU it is merged into copies of the matrices it adapts (merged() in model/lora.h), so
  // that a bf16 weight is rounded once more.
  const Lora* adapter = nullptr;
  SwapCache cache = SwapCache::kKeep;
  std::optional<std::int64_t> version;  // default: one more
};

// What a request must fit into; the same for the engine's life.
struct EngineLimits {
  std::size_t vocabulary = 0;
  std::int64_t positions = 0;  // of the model; 0: not said
  std::int64_t cache_tokens = 0;
  int max_running = 0;
  // The most tokens that each of `samples` answers to a prompt of so many tokens can have; less than 1: it
  // does not fit.
  std::int64_t room(std::int64_t prompt, int samples) const;
};

class Engine {
 public:
  // A folder in Hugging Face's layout or a GGUF file. Errors: those of Weights::open(); kResourceExhausted:
  // no memory.
  static Result<std::unique_ptr<Engine>> open(const std::string& model, const EngineOptions& options);
  virtual ~Engine() = default;

  // Weights as open() reads them, of `model`, options.type and options.device: for swap_weights().
  static Result<Weights> read_weights(const std::string& model, const EngineOptions& options);

  // nullptr: the model has none, or none that is read; then requests are ids only and have no stop texts.
  virtual const Tokenizer* tokenizer() const = 0;
  virtual std::size_t vocabulary() const = 0;
  virtual EngineLimits limits() const = 0;

  // kInvalidArgument: ids or parameters out of range, longer than the model's positions. kResourceExhausted:
  // it would never fit into the cache or among max_running.
  virtual Result<std::uint64_t> add(GenerateRequest request) = 0;
  // Ends a request without further events; no such request: nothing.
  virtual void cancel(std::uint64_t request) = 0;
  virtual bool idle() const = 0;
  // kInternal: the model gave logits that are not finite; or libtorch failed. The engine is of no use
  // afterwards.
  virtual Result<std::vector<TokenEvent>> step() = 0;

  // From the next token on, running samples go on with these weights. On a GPU the step is built anew, so
  // its graphs are captured again when they are first needed. kInvalidArgument: of other sizes, another type
  // or device; kResourceExhausted: no room. Then everything stays as it was.
  virtual Status swap_weights(const WeightSwap& swap) = 0;
  virtual std::int64_t version() const = 0;  // 0 until the first swap

  struct Counts {
    std::int64_t steps = 0, prompt_tokens = 0, generated_tokens = 0;  // passed through the model; sampled
    std::int64_t reused_tokens = 0;  // of prompts, taken over from earlier requests
    std::int64_t free_tokens = 0;    // of the cache; those kept for later requests count as free
  };
  virtual Counts counts() const = 0;
};

}  // namespace musacoder::llm
