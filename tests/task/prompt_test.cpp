// Prompts and the MUSA edition: filled, ported, and the same from run to run.
#include "task/prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hash.h"
#include "task/edition.h"
#include "task/essential.h"

namespace musacoder::task {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kRuntime = std::string(MC_SOURCE_DIR) + "/runtime";

const port::RenameTable& table() {
  static const port::RenameTable loaded = *port::RenameTable::load(kRuntime + "/musa/renames");
  return loaded;
}

const Prompts& prompts() {
  static const Prompts loaded = *Prompts::load(kRuntime + "/prompts");
  return loaded;
}

constexpr const char* kReference =
    "import torch\n\nclass Model:\n    \"\"\"On CUDA.\"\"\"\n    pass  # a {{name}} on cuda:0\n\ndef "
    "get_inputs():\n    return [torch.rand(3).cuda()]\n";

TEST(Prompts, SpeakOfTheirBackend) {
  const auto cuda = prompts().fill(table(), {.backend = "cuda", .reference = kReference, .exemplar = "add"});
  const auto musa = prompts().fill(table(), {.backend = "musa", .reference = kReference, .exemplar = "add"});
  ASSERT_TRUE(cuda) << cuda.error().message;
  ASSERT_TRUE(musa) << musa.error().message;
  EXPECT_THAT(*cuda, HasSubstr("torch.rand(3).cuda()"));
  EXPECT_THAT(*cuda, HasSubstr("`cuda_sources`"));
  EXPECT_THAT(*cuda, HasSubstr("#include <cuda_runtime.h>"));
  EXPECT_THAT(*cuda, Not(HasSubstr("musa")));
  EXPECT_THAT(*musa, HasSubstr("torch.rand(3).musa()"));
  EXPECT_THAT(*musa, HasSubstr("`musa_sources`"));
  EXPECT_THAT(*musa, HasSubstr("#include <musa_runtime.h>"));
  EXPECT_THAT(*musa, HasSubstr("\"\"\"On MUSA.\"\"\""));
  EXPECT_THAT(*musa, HasSubstr("# a {{name}} on musa:0")) << "braces of a task are the task's";
  EXPECT_THAT(*musa, Not(HasSubstr("cuda_sources")));
}

// The paper's appendix A: total conversion, weights, one-shot, reference, answer.
TEST(Prompts, SayWhatAnAnswerMustBe) {
  for (const char* backend : {"cuda", "musa"}) {
    const auto text =
        prompts().fill(table(), {.backend = backend, .reference = kReference, .exemplar = "row_softmax"});
    ASSERT_TRUE(text);
    std::size_t at = 0;
    for (const char* part : {"expert", "Do not call PyTorch's operators", "fuse", "state_dict",
                             "`forward` does not call these members", "row_softmax_kernel",
                             "class Model:", "`ModelNew`", "verbose=False"}) {
      const std::size_t found = text->find(part, at);
      EXPECT_NE(found, std::string::npos) << part << " is missing, or stands before what it follows";
      if (found != std::string::npos) at = found;
    }
  }
}

TEST(Prompts, CanDoWithoutAnExemplar) {
  const auto text = prompts().fill(table(), {.backend = "musa", .reference = kReference, .exemplar = ""});
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, Not(HasSubstr("An example")));
  EXPECT_THAT(*text, Not(HasSubstr("exemplar")));
}

TEST(Prompts, NameWhatThereIs) {
  EXPECT_THAT(prompts().fill(table(), {.backend = "rocm", .reference = "", .exemplar = ""}).error().message,
              HasSubstr("cuda, musa"));
  EXPECT_THAT(prompts().fill(table(), {.backend = "cuda", .reference = "", .exemplar = "x"}).error().message,
              HasSubstr("add, linear_relu, row_softmax"));
}

TEST(Prompts, CompactFormIsShortAndHasAVersionOfItsOwn) {
  const auto full = prompts().fill(table(), {.backend = "musa", .reference = kReference, .exemplar = ""});
  const auto compact =
      prompts().fill(table(), {.backend = "musa", .reference = kReference, .exemplar = "", .form = "compact"});
  ASSERT_TRUE(full && compact);
  EXPECT_LT(compact->size() - std::string(kReference).size(), (full->size() - std::string(kReference).size()) / 3);
  EXPECT_THAT(*compact, testing::HasSubstr("musa_sources"));
  EXPECT_THAT(*compact, testing::HasSubstr("ModelNew"));
  EXPECT_THAT(*compact, testing::Not(testing::HasSubstr("{{plat")));
  EXPECT_NE(prompts().hash(), prompts().hash("compact"));
  EXPECT_EQ(prompts().hash("brief"), "");
  EXPECT_FALSE(prompts().fill(table(), {.reference = kReference, .form = "brief"}));
}

TEST(Prompts, TheCompactFormShowsWhatIsComputed) {
  const auto shown = [](const std::string& reference) {
    const auto text = prompts().fill(table(), {.backend = "cuda", .reference = reference, .exemplar = "", .form = "compact"});
    EXPECT_TRUE(text);
    const auto begin = text->find("```python\n") + 10;
    return text->substr(begin, text->find("\n```", begin) + 1 - begin);
  };
  EXPECT_EQ(shown("\"\"\"Adds.\n\n# no comment\n\"\"\"\n\nimport torch  # dropped\n"), "import torch\n");
  EXPECT_EQ(shown("#!/usr/bin/env python\n# coding\n'''It says \"\"\".'''\nimport torch"), "import torch\n");
  EXPECT_EQ(shown("import torch\nimport torch.nn.functional as F\nclass Model(torch.nn.Module):\n    y = torch.nn.ReLU(torch.nn.Tanh)\n"),
            "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nclass Model(nn.Module):\n    y = nn.ReLU(nn.Tanh)\n");
  EXPECT_EQ(shown("import torch\nnn = 3\nclass Model(torch.nn.Module): ...\n"), "import torch\nnn = 3\nclass Model(torch.nn.Module): ...\n");
}

TEST(EssentialPython, LeavesOutWhatOnlyPeopleRead) {
  EXPECT_EQ(essential_python("class Model:\n    \"\"\"\n    Says: a lot.\n    \"\"\"\n\n    def f(self):  # here\n        r'''More.'''\n\n        # and\n        return 'a # b'\n\n\n\n\nN = 3  # 3\n"),
            "class Model:\n    def f(self):\n        return 'a # b'\n\n\nN = 3\n");
  EXPECT_EQ(essential_python("x = [1,  # one\n     2]\ny = f(\n  '''a:\n# b\n\n\n\nc''')\n"), "x = [1,\n     2]\ny = f(\n  '''a:\n# b\n\n\n\nc''')\n");
}

TEST(EssentialPython, LeavesAloneWhatMustStand) {
  for (const char* text : {"def f():\n    \"\"\"All there is.\"\"\"\n\ndef g():\n    'x'\n", "\"\"\"never ends\nimport torch\n", "x = 'open\n", "# only this\n", "", "\n\n"})
    EXPECT_EQ(essential_python(text), text);
}

TEST(FillTemplate, PutsWordsInAndNothingOfTheirs) {
  const auto text = fill_template("optimize", {{"reference", "R {{answer}}"}, {"answer", "A"}, {"findings", "F"}});
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_THAT(*text, testing::HasSubstr("R {{answer}}"));
  EXPECT_FALSE(fill_template("optimize", {{"reference", "R"}}));
  EXPECT_EQ(fill_template("nothing", {}).error().code, Code::kNotFound);
}

TEST(Prompts, ExemplarsComeBackFromMusa) {
  for (const Exemplar& exemplar : prompts().exemplars()) {
    const auto musa = prompts().exemplar(table(), exemplar.name, "musa");
    ASSERT_TRUE(musa);
    EXPECT_THAT(musa->answer, Not(HasSubstr("cuda"))) << exemplar.name;
    const auto back = port::port_text(table(), musa->answer, port::Language::kPython, port::Dialect::kCuda);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->text, exemplar.answer);
  }
}

TEST(Prompts, RefuseATemplateThatNoBackendFills) {
  auto folder = base::TempDir::create("prompts");
  ASSERT_TRUE(folder);
  std::filesystem::copy(
      kRuntime + "/prompts", folder->path(),
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
  ASSERT_TRUE(base::write_file(folder->file("kernel.md"), "{{platfrom}} {{#exemplar}}\n{{/exemplar}}\n"));
  EXPECT_THAT(Prompts::load(folder->path()).error().message, HasSubstr("{{platfrom}}"));
  ASSERT_TRUE(base::write_file(folder->file("kernel.md"), "{{platform}}"));
  EXPECT_THAT(Prompts::load(folder->path()).error().message, HasSubstr("{{#exemplar}}"));
}

TaskSet set_of(const std::string& rows) { return *TaskSet::from_jsonl(rows, "rows.jsonl"); }

const char* const kRows =
    "{\"level\": 2, \"id\": 1, \"name\": \"1_B\", \"code\": \"import torch\\nx = 'cuda'\\n\"}\n"
    "{\"level\": 1, \"id\": 10, \"name\": \"10_A\", \"code\": \"a = 1\\n\"}\n"
    "{\"level\": 1, \"id\": 9, \"name\": \"Nine\", \"code\": \"x.cuda()\\n\"}\n"
    "{\"level\": 4, \"id\": 1, \"name\": \"1_D\", \"code\": \"d = 1\\n\"}\n";

TEST(Edition, KeepsTasksAndSplits) {
  const auto edition = make_edition(table(), prompts(), set_of(kRows), {.tool = "test"});
  ASSERT_TRUE(edition) << edition.error().message;
  std::vector<std::string> files, codes;
  for (const EditionTask& task : edition->tasks) {
    files.push_back(task.file);
    codes.push_back(task.code);
  }
  EXPECT_THAT(files, ElementsAre("level1/9_Nine.py", "level1/10_A.py", "level2/1_B.py"));
  EXPECT_THAT(codes, ElementsAre("x.musa()\n", "a = 1\n", "import torch, torch_musa\nx = 'musa'\n"));
  const auto again = TaskSet::from_jsonl(task_rows(*edition), "tasks.jsonl");
  ASSERT_TRUE(again) << again.error().message;
  ASSERT_EQ(again->tasks().size(), 3u);
  EXPECT_NE(again->find("level1/9"), nullptr);
  EXPECT_EQ(again->find("level2/1")->name, "1_B");
}

TEST(Edition, IsTheSameFromRunToRunAndFromAnyOrder) {
  const auto one = make_edition(table(), prompts(), set_of(kRows), {.tool = "test"});
  std::string turned = kRows;
  std::rotate(turned.begin(), turned.begin() + static_cast<std::ptrdiff_t>(turned.find('\n') + 1),
              turned.end());
  const auto two = make_edition(table(), prompts(), set_of(turned), {.tool = "test"});
  ASSERT_TRUE(one && two);
  EXPECT_EQ(manifest_of(*one), manifest_of(*two));
  EXPECT_EQ(task_rows(*one), task_rows(*two));
  EXPECT_EQ(prompt_rows(*one), prompt_rows(*two));
}

TEST(Edition, ManifestHasTheHashOfWhatIsWritten) {
  const auto edition = make_edition(table(), prompts(), set_of(kRows), {.tool = "test", .levels = {4}});
  ASSERT_TRUE(edition);
  auto folder = base::TempDir::create("edition");
  ASSERT_TRUE(folder);
  const std::string out = folder->file("out");
  ASSERT_TRUE(write_edition(*edition, out, false));
  const auto manifest = nlohmann::json::parse(*base::read_file(out + "/manifest.json"));
  ASSERT_EQ(manifest["tasks"].size(), 1u);
  const auto& task = manifest["tasks"][0];
  EXPECT_EQ(task["sha256"], *base::sha256_file(out + "/" + task["file"].get<std::string>()));
  EXPECT_EQ(manifest["tables_sha256"], table().hash());
  EXPECT_EQ(manifest["exemplars"][0]["answer_sha256"], *base::sha256_file(out + "/exemplars/add/answer.py"));
  EXPECT_EQ(write_edition(*edition, out, false).error().code, Code::kInvalidArgument)
      << "what is there stays";
  EXPECT_TRUE(write_edition(*edition, out, true));
}

TEST(Edition, RefusesWhatCannotBe) {
  EXPECT_THAT(make_edition(table(), prompts(), set_of(kRows), {.levels = {3}}).error().message,
              HasSubstr("no task of level 3"));
  EXPECT_THAT(make_edition(table(), prompts(), set_of(kRows), {.exemplar = "nothing"}).error().message,
              HasSubstr("no exemplar"));
  EXPECT_THAT(
      make_edition(table(), prompts(), set_of("{\"id\": \"../x\", \"code\": \"a\"}\n"), {}).error().message,
      HasSubstr("cannot be a file's name"));
}

}  // namespace
}  // namespace musacoder::task
