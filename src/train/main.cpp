// The `musacoder-train` program: reads the command line, calls one function, returns its exit code.
#include <CLI/CLI.hpp>

#include "train/parity.h"

namespace {

int finish(const char* command, const musacoder::Status& status) {
  if (status) return 0;
  fmt::print(stderr, "musacoder-train {}: {}\n", command, status.error().message);
  return status.error().code == musacoder::Code::kInternal || status.error().code == musacoder::Code::kResourceExhausted ? 3 : 2;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Language models for MusaCoder: generation and training on libtorch.\n"
               "Example: musacoder-train parity --model DIR --input in.json --out out.safetensors", "musacoder-train");
  app.footer("Exit codes: 0 done, 2 wrong usage or input, 3 resources or a fault of the program.");
  app.require_subcommand(1);

  std::string model, input, out;
  CLI::App* parity = app.add_subcommand("parity", "write logits, loss, gradients and a training step for comparison with another implementation");
  parity->add_option("--model", model, "folder in Hugging Face's layout, or a GGUF file")->required();
  parity->add_option("--input", input, "JSON: {\"sequences\": [[ids, ...], ...], \"adamw\": {\"lr\": 0.001}}")->required();
  parity->add_option("--out", out, "safetensors file to write")->required();
  parity->footer("Example: musacoder-train parity --model tiny --input in.json --out out.safetensors");

  CLI11_PARSE(app, argc, argv);
  if (parity->parsed()) return finish("parity", musacoder::train::run_parity(model, input, out));
  return 2;
}
