#include "cli/completion.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace musacoder::cli {
namespace {

struct Command {
  std::string path;  // "tasks audit"; empty for the program itself
  std::string description;
  std::vector<std::string> words;         // sub-commands
  std::vector<std::string> options;       // --names
};

void collect(const CLI::App& app, const std::string& path, std::vector<Command>& commands) {
  Command command{path, app.get_description(), {}, {}};
  for (const auto* sub : app.get_subcommands({})) command.words.push_back(sub->get_name());
  for (const auto* option : app.get_options())
    for (const auto& name : option->get_lnames()) command.options.push_back("--" + name);
  commands.push_back(command);
  for (const auto* sub : app.get_subcommands({}))
    collect(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), commands);
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

void print_bash(const std::vector<Command>& commands) {
  fmt::print("# bash completion for musacoder\n_musacoder() {{\n  local cur=\"${{COMP_WORDS[COMP_CWORD]}}\" path=\"\" word\n"
             "  for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do\n    case \"$path $word\" in\n");
  std::string cases;
  for (const auto& command : commands) {
    if (command.path.empty()) continue;
    const auto space = command.path.rfind(' ');
    const std::string parent = space == std::string::npos ? "" : command.path.substr(0, space);
    const std::string word = space == std::string::npos ? command.path : command.path.substr(space + 1);
    fmt::print("      \"{} {}\") path=\"{}\" ;;\n", parent, word, command.path);
    cases += fmt::format("    \"{}\") words=\"{} {}\" ;;\n", command.path, join(command.words), join(command.options));
  }
  fmt::print("    esac\n  done\n  local words\n  case \"$path\" in\n{}    *) words=\"{} {}\" ;;\n  esac\n", cases,
             join(commands[0].words), join(commands[0].options));
  fmt::print("  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\") $(compgen -f -- \"$cur\"))\n}}\ncomplete -o filenames -F _musacoder musacoder\n");
}

void print_fish(const std::vector<Command>& commands) {
  fmt::print("# fish completion for musacoder\n");
  for (const auto& command : commands) {
    const std::string condition =
        command.path.empty() ? "__fish_use_subcommand" : "__fish_seen_subcommand_from " + command.path.substr(command.path.rfind(' ') + 1);
    for (const auto& word : command.words) fmt::print("complete -c musacoder -n '{}' -a {}\n", condition, word);
    for (const auto& option : command.options)
      fmt::print("complete -c musacoder -n '{}' -l {}\n", condition, option.substr(2));
  }
}

}  // namespace

int print_completion(const CLI::App& app, const std::string& shell) {
  std::vector<Command> commands;
  collect(app, "", commands);
  if (shell == "zsh") fmt::print("#compdef musacoder\nautoload -U +X bashcompinit && bashcompinit\n");
  if (shell == "fish")
    print_fish(commands);
  else
    print_bash(commands);
  return 0;
}

}  // namespace musacoder::cli
