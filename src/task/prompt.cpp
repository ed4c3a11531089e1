#include "task/prompt.h"

#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>

#include "base/files.h"
#include "base/hash.h"
#include "base/paths.h"
#include "task/essential.h"

namespace musacoder::task {
namespace {

constexpr std::uint64_t kMaxFileBytes = 1u << 20;
constexpr std::string_view kExemplarBegin = "{{#exemplar}}", kExemplarEnd = "{{/exemplar}}";

using Words = std::map<std::string, std::string>;
const Words kForms = {{"full", "kernel.md"}, {"compact", "compact.md"}};

// Puts words in for {{name}}. Errors: kInvalidArgument for a name without a word.
Result<std::string> put_in(std::string_view text, const Words& words) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = text.find("{{", at);
    if (open == std::string_view::npos) {
      out += text.substr(at);
      break;
    }
    out += text.substr(at, open - at);
    const std::size_t close = text.find("}}", open);
    if (close == std::string_view::npos)
      return fail(Code::kInvalidArgument, "a {{{{ of the template has no }}}}");
    const std::string name(text.substr(open + 2, close - open - 2));
    const auto word = words.find(name);
    if (word == words.end())
      return fail(Code::kInvalidArgument, "the template asks for {{{{{}}}}}, which no backend gives", name);
    out += word->second;
    at = close + 2;
  }
  return out;
}

// The template with the part about the exemplar, or without it. Marks stand on lines of their own.
Result<std::string> with_exemplar(const std::string& text, bool wanted) {
  const std::size_t begin = text.find(kExemplarBegin), end = text.find(kExemplarEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    return fail(Code::kInvalidArgument, "the template has no part from {} to {}", kExemplarBegin,
                kExemplarEnd);
  const std::size_t inner = begin + kExemplarBegin.size() + 1, after = end + kExemplarEnd.size() + 1;
  return text.substr(0, begin) + (wanted && inner < end ? text.substr(inner, end - inner) : "") +
         (after < text.size() ? text.substr(after) : "");
}

std::string with_newline(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text + "\n";
}

Result<std::map<std::string, Words>> read_backends(const std::string& path) {
  MC_ASSIGN_OR_RETURN(const std::string text, base::read_file(path, kMaxFileBytes));
  std::map<std::string, Words> backends;
  try {
    const toml::table file = toml::parse(text, path);
    if (file["version"].value_or(0) != 1)
      return fail(Code::kInvalidArgument, "{}: `version` is not 1, the only one this program reads", path);
    for (const auto& [name, node] : file) {
      const toml::table* table = node.as_table();
      if (!table) continue;
      for (const auto& [key, value] : *table) {
        const auto word = value.value<std::string>();
        if (!word)
          return fail(Code::kInvalidArgument, "{}: {}.{} is no text", path, std::string(name.str()),
                      std::string(key.str()));
        backends[std::string(name.str())][std::string(key.str())] = *word;
      }
    }
  } catch (const toml::parse_error& error) {
    return fail(Code::kInvalidArgument, "{}:{}: {}", path, error.source().begin.line,
                std::string(error.description()));
  }
  if (backends.empty()) return fail(Code::kInvalidArgument, "{} names no backend", path);
  return backends;
}

// Small models are taught on files that say nn.Module, and lose the thread elsewhere.
std::string in_usual_words(const std::string& code) {
  const std::string import = "import torch\n", usual = "import torch.nn as nn\n", word = "torch.nn.";
  const bool known = code.find(usual) != std::string::npos;
  if (known || !code.starts_with(import) || code.find(word) == std::string::npos || code.find("\nnn = ") != std::string::npos) return code;
  std::string out = import + usual;
  for (std::size_t at = import.size(); at < code.size();) {
    const std::size_t end = std::min(code.find('\n', at), code.size() - 1) + 1;
    std::string line = code.substr(at, end - at);
    if (!line.starts_with("import ") && !line.starts_with("from "))
      for (std::size_t k = 0; (k = line.find(word, k)) != std::string::npos; k += 3) line.replace(k, word.size(), "nn.");
    out += line;
    at = end;
  }
  return out;
}

}  // namespace

Result<Prompts> Prompts::load(const std::string& folder) {
  Prompts prompts;
  for (const auto& [form, file] : kForms) {
    MC_ASSIGN_OR_RETURN(prompts.forms_[form].text, base::read_file(folder + "/" + file, kMaxFileBytes));
  }
  MC_ASSIGN_OR_RETURN(prompts.backends_, read_backends(folder + "/backends.toml"));
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/exemplars", error)) {
    if (!entry.is_directory()) continue;
    Exemplar exemplar{.name = entry.path().filename().string(), .task = {}, .answer = {}};
    MC_ASSIGN_OR_RETURN(exemplar.task, base::read_file(entry.path().string() + "/task.py", kMaxFileBytes));
    MC_ASSIGN_OR_RETURN(exemplar.answer,
                        base::read_file(entry.path().string() + "/answer.py", kMaxFileBytes));
    prompts.exemplars_.push_back(std::move(exemplar));
  }
  if (error) return fail(Code::kNotFound, "{}/exemplars: {}", folder, error.message());
  std::sort(prompts.exemplars_.begin(), prompts.exemplars_.end(),
            [](const Exemplar& a, const Exemplar& b) { return a.name < b.name; });
  // A template that cannot be filled is found when it is loaded, not when the first prompt is asked for.
  for (auto& [name, form] : prompts.forms_) {
    base::Sha256 hash;
    hash.field(form.text);
    for (const auto& [backend, given] : prompts.backends_) {
      Words words = given;
      for (const char* word : {"reference", "exemplar_task", "exemplar_answer"}) words[word] = "";
      auto text = with_exemplar(form.text, true);
      auto filled = text ? put_in(*text, words) : text;
      if (!filled)
        return fail(Code::kInvalidArgument, "{}/{}, backend {}: {}", folder, kForms.at(name), backend,
                    filled.error().message);
      for (const auto& [key, word] : given) {
        hash.field(backend);
        hash.field(key);
        hash.field(word);
      }
    }
    form.hash = hash.hex();
  }
  return prompts;
}

Result<Prompts> Prompts::installed() {
  MC_ASSIGN_OR_RETURN(const std::string runtime, base::find_runtime_dir());
  return load(runtime + "/prompts");
}

Result<std::string> code_for(const port::RenameTable& table, const std::string& code,
                             const std::string& backend) {
  if (backend != "musa") return code;
  MC_ASSIGN_OR_RETURN(port::Ported ported,
                      port::port_text(table, code, port::Language::kPython, port::Dialect::kMusa,
                                      {.in_strings = true, .in_comments = true, .attention = false}));
  return std::move(ported.text);
}

Result<Exemplar> Prompts::exemplar(const port::RenameTable& table, const std::string& name,
                                   const std::string& backend) const {
  std::vector<std::string> names;
  for (const Exemplar& exemplar : exemplars_) {
    names.push_back(exemplar.name);
    if (exemplar.name != name) continue;
    Exemplar ported = exemplar;
    MC_ASSIGN_OR_RETURN(ported.task, code_for(table, exemplar.task, backend));
    MC_ASSIGN_OR_RETURN(ported.answer, code_for(table, exemplar.answer, backend));
    return ported;
  }
  return fail(Code::kInvalidArgument, "no exemplar is called '{}'; there are {}", name,
              fmt::join(names, ", "));
}

Result<std::string> Prompts::fill(const port::RenameTable& table, const PromptRequest& request) const {
  const auto backend = backends_.find(request.backend);
  if (backend == backends_.end()) {
    std::vector<std::string> names;
    for (const auto& [name, words] : backends_) names.push_back(name);
    return fail(Code::kInvalidArgument, "no backend is called '{}'; there are {}", request.backend,
                fmt::join(names, ", "));
  }
  Words words = backend->second;
  MC_ASSIGN_OR_RETURN(words["reference"], code_for(table, request.reference, request.backend));
  if (request.form == "compact") words["reference"] = in_usual_words(essential_python(words["reference"]));
  words["reference"] = with_newline(words["reference"]);
  if (!request.exemplar.empty()) {
    MC_ASSIGN_OR_RETURN(const Exemplar shown, exemplar(table, request.exemplar, request.backend));
    words["exemplar_task"] = with_newline(shown.task);
    words["exemplar_answer"] = with_newline(shown.answer);
  }
  const auto form = forms_.find(request.form);
  if (form == forms_.end())
    return fail(Code::kInvalidArgument, "no form of the prompt is called '{}'; there are full and compact",
                request.form);
  MC_ASSIGN_OR_RETURN(const std::string text, with_exemplar(form->second.text, !request.exemplar.empty()));
  return put_in(text, words);
}

std::string Prompts::hash(const std::string& form) const {
  const auto found = forms_.find(form);
  return found == forms_.end() ? "" : found->second.hash;
}

Result<std::string> fill_template(const std::string& name, const std::map<std::string, std::string>& words) {
  MC_ASSIGN_OR_RETURN(const std::string runtime, base::find_runtime_dir());
  MC_ASSIGN_OR_RETURN(
      const std::string text,
      base::read_file(fmt::format("{}/prompts/templates/{}.md", runtime, name), kMaxFileBytes));
  return put_in(text, words);
}

}  // namespace musacoder::task
