// The prompt that asks a model for a candidate, for both backends.
//
//   MC_ASSIGN_OR_RETURN(Prompts prompts, Prompts::installed());
//   MC_ASSIGN_OR_RETURN(std::string text, prompts.fill(table, {.backend = "musa", .reference = task.code,
//   .exemplar = "add"}));
//   MC_ASSIGN_OR_RETURN(std::string ask, fill_template("review", {{"reference", task.code}, {"answer",
//   code}}));
//
// Template, words of the backends and exemplars are files of runtime/prompts (docs/musa-kernelbench.md).
// Exemplars are kept in CUDA and ported for MUSA, as is the reference's device placement. What a prompt asks
// for follows appendix A of the MusaCoder paper (arXiv 2606.04847) in content.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "port/port.h"

namespace musacoder::task {

// A task of our own with an answer that verifies: what a one-shot prompt shows.
struct Exemplar {
  std::string name, task, answer;
};

struct PromptRequest {
  std::string backend = "cuda";  // a table of backends.toml: "cuda" or "musa"
  std::string reference;         // the task's code, in CUDA's names or without any device's
  std::string exemplar;          // its name; empty: none
  // "full" (kernel.md) says all that an answer is held to; "compact" (compact.md) is a tenth of it, for small
  // models that learned the rest, and shows the task without docstrings and comments, with `nn` for torch.nn.
  // Training data and requests use the same one.
  std::string form = "full";
};

// What other requests to a model say, as templates/NAME.md: their {{words}} are put in as they are.
// Errors: kNotFound; kInvalidArgument for a placeholder without a word.
Result<std::string> fill_template(const std::string& name, const std::map<std::string, std::string>& words);

class Prompts {
 public:
  // Reads kernel.md, compact.md, backends.toml and exemplars/*/{task.py,answer.py}. Errors: kNotFound;
  // kInvalidArgument with the file for what is malformed, such as a placeholder that no backend fills.
  static Result<Prompts> load(const std::string& folder);
  static Result<Prompts> installed();

  // Errors: kInvalidArgument for an unknown backend or exemplar (the message lists those there are) or a
  // reference that is no text.
  Result<std::string> fill(const port::RenameTable& table, const PromptRequest& request) const;
  // In CUDA, by name.
  const std::vector<Exemplar>& exemplars() const { return exemplars_; }
  Result<Exemplar> exemplar(const port::RenameTable& table, const std::string& name,
                            const std::string& backend) const;
  // SHA-256 of a form's template and the words: the version of a prompt, without its task. "" for an unknown
  // form.
  std::string hash(const std::string& form = "full") const;

 private:
  struct Form {
    std::string text, hash;
  };
  std::map<std::string, Form> forms_;
  std::map<std::string, std::map<std::string, std::string>> backends_;
  std::vector<Exemplar> exemplars_;
};

// A task's code for a backend: MUSA's gets its device placement and wording (`.cuda()` → `.musa()`, "cuda" →
// "musa", also in docstrings and comments).
Result<std::string> code_for(const port::RenameTable& table, const std::string& code,
                             const std::string& backend);

}  // namespace musacoder::task
