// Shell completion scripts, made by walking the tree of commands and options.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace musacoder::cli {

// Prints the script for "bash", "zsh" or "fish" to stdout; returns the exit code.
int print_completion(const CLI::App& app, const std::string& shell);

}  // namespace musacoder::cli
