// Chains behind heavy operators.
#include "synth/tasks/chains.h"

namespace musacoder::synth {

std::string epilogue_chain(GraphBuilder& b, Seeded& draw, int& x, const std::vector<Dim>& channel, int length) {
  static const std::vector<const char*> kActivations{"relu", "gelu", "silu", "sigmoid", "tanh", "mish", "hardswish", "leaky_relu", "softplus", "elu", "hardtanh", "hardsigmoid", "relu6", "selu"};
  std::string words;
  const auto say = [&](const std::string& what) { words += (words.empty() ? " " : ", ") + what; };
  static const std::vector<const char*> kNames{"bias", "scale", "shift", "gain", "offset"};
  std::size_t parameter = draw.below(kNames.size());
  for (int step = 0; step < length; ++step) {
    switch (draw.below(9)) {
      case 0:
      case 1:
      case 2: {
        const char* op = draw.choose(kActivations);
        x = b.op(op, {x}, std::string(op) == "leaky_relu" && draw.chance(0.5) ? Attrs{{"negative_slope", draw.choose({0.1, 0.2})}} : Attrs{});
        say(op);
        break;
      }
      case 3: {
        const double by = draw.choose({0.5, 2.0, 0.1, 1.5, 0.25});
        x = b.op("mul", {x}, {{"scalar", by}});
        say(fmt::format("a scale by {}", by));
        break;
      }
      case 4: {
        const double by = draw.choose({1.0, 0.5, -0.5, 2.0});
        x = b.op(draw.choose({"add", "sub"}), {x}, {{"scalar", by}});
        say("a shift");
        break;
      }
      case 5: {
        const double low = draw.choose({-1.0, 0.0, -0.5}), high = draw.choose({1.0, 0.5, 2.0});
        x = b.op("clamp", {x}, draw.chance(0.7) ? Attrs{{"min", low}, {"max", high}} : Attrs{{"min", low}});
        say("a clamp");
        break;
      }
      case 6:
      case 7: {
        if (static_cast<std::size_t>(step) >= kNames.size()) break;
        const char* name = kNames[parameter++ % kNames.size()];
        const bool product = std::string(name) == "scale" || std::string(name) == "gain";
        const int p = b.parameter(name, b.type(x).dtype, channel, product ? Fill::kNearOne : Fill::kSmall);
        x = b.op(product ? "mul" : draw.choose({"add", "add", "sub"}), {x, p});
        say(product ? "a learned scale" : "a learned shift");
        break;
      }
      default: {
        const double by = draw.choose({2.0, 4.0, 0.5});
        x = b.op("div", {x}, {{"scalar", by}});
        say("a division");
        break;
      }
    }
  }
  if (words.empty()) {
    x = b.op("relu", {x});
    say("relu");
  }
  return words;
}

std::string row_tail(GraphBuilder& b, Seeded& draw, int& x) {
  switch (draw.below(10)) {
    case 0: x = b.op("softmax", {x}, {{"dim", -1}}); return ", softmax";
    case 1: x = b.op("sum", {x}, {{"dim", 1}, {"keepdim", true}}); return ", the sum of each row";
    case 2: x = b.op("logsumexp", {x}, {{"dim", 1}, {"keepdim", true}}); return ", logsumexp of each row";
    case 3: x = b.op("mean", {x}, {{"dim", 1}, {"keepdim", true}}); return ", the mean of each row";
    case 4: x = b.op("amax", {x}, {{"dim", 1}, {"keepdim", true}}); return ", the maximum of each row";
    default: return "";
  }
}

}  // namespace musacoder::synth
