#include "llm/checkpoint/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "llm/checkpoint/atomic_folder.h"
#include "llm/checkpoint/checkpoint_writer.h"
#include "support.h"

namespace fs = std::filesystem;

namespace musacoder::llm {
namespace {

const std::string kHead1 = R"( {"w.b" : {"dtype":"F32","shape":[2],"data_offsets":[0,8]}, "w.a":{"data_offsets":[8,9],"dtype":"U8","shape":[1]}} )";

// Two shards in a layout that no writer of today makes: spaces, odd offsets, an unsorted index.
base::TempDir two_shards() {
  return folder_of({
      {"config.json", "{\n \"model_type\": \"x\" }"},
      {"model-1.safetensors", safetensors_of("{" + kHead1.substr(2), "abcdefghi")},
      {"model-2.safetensors", safetensors_of(R"({"v":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]}})", "WXYZ")},
      {"model.safetensors.index.json", R"({"metadata":{"total_size":13},"weight_map":{"w.b":"model-1.safetensors","v":"model-2.safetensors","w.a":"model-1.safetensors"}})"},
      {"tokenizer.json", "{}"},
      {"README.md", "words"},
      {"pytorch_model.bin", "old"},
      {"extra/notes.txt", "n"},
      {".git/HEAD", "h"},
  });
}

std::map<std::string, std::string> all_files(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[fs::relative(entry.path(), folder).string()] = base::read_file(entry.path().string()).value();
  return files;
}

TEST(Checkpoint, OpensShards) {
  const auto dir = two_shards();
  const auto model = Checkpoint::open(dir.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->config()["model_type"], "x");
  ASSERT_EQ(model->tensors().size(), 3u);
  EXPECT_EQ(model->tensors()[0].name, "w.b");
  EXPECT_EQ(model->find("v")->bytes, "WXYZ");
  EXPECT_EQ(model->find("w.a")->bytes, "i");
  EXPECT_EQ(model->find("nothing"), nullptr);
  EXPECT_EQ(model->parameters(), 5u);
}

TEST(Checkpoint, ViewsOutliveTheCheckpointAndTheFile) {
  TensorView view;
  {
    const auto dir = two_shards();
    view = *Checkpoint::open(dir.path()).value().find("v");
  }
  EXPECT_EQ(view.bytes, "WXYZ");
}

TEST(Checkpoint, SavedUnchangedIsIdentical) {
  const auto dir = two_shards();
  const auto model = Checkpoint::open(dir.path()).value();
  const auto out = folder_of({});
  ASSERT_TRUE(save_checkpoint(model, out.file("copy"), {}));
  auto expect = all_files(dir.path());
  expect.erase(".git/HEAD");
  EXPECT_EQ(all_files(out.file("copy")), expect);
  // Into itself, and again over the copy.
  ASSERT_TRUE(save_checkpoint(model, dir.path(), {}));
  EXPECT_EQ(all_files(dir.path()), expect);
  ASSERT_TRUE(save_checkpoint(Checkpoint::open(dir.path()).value(), out.file("copy"), {}));
  EXPECT_EQ(all_files(out.file("copy")), expect);
  EXPECT_EQ(std::distance(fs::directory_iterator(out.path()), fs::directory_iterator()), 1) << "nothing is left beside it";
}

TEST(Checkpoint, ChangesOnlyWhatIsGiven) {
  const auto dir = two_shards();
  const auto model = Checkpoint::open(dir.path()).value();
  const auto out = folder_of({});
  const std::string bytes = "12345678";
  const NewTensor changed{"w.b", DType::kF32, {2}, [&]() -> Result<std::string_view> { return bytes; }};
  const auto status = save_checkpoint(model, out.file("m"), {changed}, {{"README.md", "new"}, {"trainer.json", "{}"}});
  ASSERT_TRUE(status) << status.error().message;
  auto expect = all_files(dir.path());
  expect.erase(".git/HEAD");
  expect.erase("pytorch_model.bin");   // of the old model
  expect["README.md"] = "new";
  expect["trainer.json"] = "{}";
  auto& shard = expect["model-1.safetensors"];
  shard.replace(shard.size() - 9, 8, bytes);
  EXPECT_EQ(all_files(out.file("m")), expect);
}

TEST(Checkpoint, RefusesChangesThatDoNotFit) {
  const auto dir = two_shards();
  const auto model = Checkpoint::open(dir.path()).value();
  const auto out = folder_of({});
  auto give = [](std::string name, DType dtype, Shape shape, std::string_view bytes) {
    return NewTensor{std::move(name), dtype, std::move(shape), [bytes]() -> Result<std::string_view> { return bytes; }};
  };
  struct {
    std::vector<NewTensor> changed;
    const char* expect;
  } cases[] = {
      {{give("w.c", DType::kF32, {2}, "12345678")}, "'w.c' is not in"},
      {{give("w.b", DType::kBF16, {2}, "1234")}, "is F32 [2]"},
      {{give("w.b", DType::kF32, {2, 1}, "12345678")}, "F32 [2, 1] here"},
      {{give("w.b", DType::kF32, {2}, "1234567")}, "was given 7 bytes"},
      {{give("v", DType::kBF16, {1, 2}, "1234"), give("v", DType::kBF16, {1, 2}, "1234")}, "given twice"},
      {{{"v", DType::kBF16, {1, 2}, []() -> Result<std::string_view> { return fail(Code::kUnavailable, "device is gone"); }}}, "device is gone"},
  };
  for (const auto& c : cases) {
    const auto status = save_checkpoint(model, out.file("m"), c.changed);
    ASSERT_FALSE(status) << c.expect;
    EXPECT_NE(status.error().message.find(c.expect), std::string::npos) << status.error().message;
    EXPECT_TRUE(fs::is_empty(out.path())) << "a failed save leaves nothing";
  }
}

TEST(Checkpoint, RefusesIndexesThatDoNotFit) {
  const std::string one = safetensors_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x");
  struct {
    std::string index;
    const char* expect;
  } cases[] = {
      {R"({"weight_map":{"a":"../x.safetensors"}})", "not the name of a file"},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "not the name of a file"},
      {R"({"weight_map":{"a":".hidden"}})", "not the name of a file"},
      {R"({"weight_map":{"a":"gone.safetensors"}})", "gone.safetensors"},
      {R"({"weight_map":{"a":"1.safetensors","b":"1.safetensors"}})", "'b' is not in 1.safetensors"},
      {R"({"weight_map":{"a":"1.safetensors","x":"2.safetensors"}})", "'a' is in another shard too"},
      {R"({"weight_map":{"a":"1.safetensors","a":"1.safetensors"}})", "given twice"},
      {R"({"weight_map":{"a":1}})", "not a text"},
      {R"({"weight_map":{}})", "empty"},
      {R"({})", "no weight_map"},
      {R"([])", "no weight_map"},
      {"", "not JSON"},
  };
  for (const auto& c : cases) {
    const auto dir = folder_of({{"1.safetensors", one}, {"2.safetensors", one}, {"model.safetensors.index.json", c.index}});
    const auto model = Checkpoint::open(dir.path());
    ASSERT_FALSE(model) << c.index;
    EXPECT_NE(model.error().message.find(c.expect), std::string::npos) << c.index << "\n" << model.error().message;
  }
}

TEST(Checkpoint, SaysWhatIsMissing) {
  const auto empty = folder_of({});
  EXPECT_EQ(Checkpoint::open(empty.path()).error().code, Code::kNotFound);
  EXPECT_EQ(Checkpoint::open(empty.file("x")).error().code, Code::kNotFound);
  const auto other = folder_of({{"pytorch_model.bin", ""}});
  EXPECT_EQ(Checkpoint::open(other.path()).error().code, Code::kUnsupported);
  const auto broken = folder_of({{"config.json", "[]"}, {"model.safetensors", safetensors_of("{}", "")}});
  EXPECT_NE(Checkpoint::open(broken.path()).error().message.find("config.json"), std::string::npos);
}

TEST(Checkpoint, WritesNewModelsInShards) {
  const std::string bytes(1000, 'z');
  NewCheckpoint model{.files = {{"config.json", "{}"}}, .max_shard_bytes = 1000};
  for (int i = 0; i < 3; ++i)
    model.tensors.push_back({"t" + std::to_string(i), DType::kU8, {400}, [&]() -> Result<std::string_view> { return std::string_view(bytes).substr(0, 400); }});
  model.tensors.push_back({"big", DType::kU8, {1000}, [&]() -> Result<std::string_view> { return bytes; }});
  const auto out = folder_of({});
  ASSERT_TRUE(write_checkpoint(model, out.file("m")));
  const auto read = Checkpoint::open(out.file("m"));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->shards().size(), 3u);
  EXPECT_EQ(read->shards()[0].name, "model-00001-of-00003.safetensors");
  EXPECT_EQ(read->shards()[0].count, 2u);
  EXPECT_EQ(read->find("big")->bytes.size(), 1000u);
  const auto index = nlohmann::json::parse(base::read_file(out.file("m/model.safetensors.index.json")).value());
  EXPECT_EQ(index["metadata"]["total_size"], 2200);
  model.tensors.push_back(model.tensors[0]);
  EXPECT_FALSE(write_checkpoint(model, out.file("m")));
}

TEST(AtomicFolder, RefusesToReplaceOtherThings) {
  const auto dir = folder_of({{"thesis/chapter1.txt", "x"}, {"file", "y"}});
  EXPECT_FALSE(AtomicFolder::begin(dir.file("thesis"), 0));
  EXPECT_FALSE(AtomicFolder::begin(dir.file("file"), 0));
  EXPECT_EQ(base::read_file(dir.file("thesis/chapter1.txt")).value(), "x");
}

TEST(AtomicFolder, LinksStayLinks) {
  const auto dir = folder_of({{"real/config.json", "{}"}});
  fs::create_directory_symlink(dir.file("real"), dir.file("latest"));
  auto out = AtomicFolder::begin(dir.file("latest"), 0);
  ASSERT_TRUE(out);
  ASSERT_TRUE(write_file_synced(out->file("config.json"), {"{", "1}"}));
  ASSERT_TRUE(out->commit());
  EXPECT_TRUE(fs::is_symlink(dir.file("latest")));
  EXPECT_EQ(base::read_file(dir.file("real/config.json")).value(), "{1}");
}

TEST(AtomicFolder, RemovesWhatADeadProcessLeft) {
  const auto dir = folder_of({});
  const pid_t child = ::fork();
  if (child == 0) {
    auto out = AtomicFolder::begin(dir.file("m"), 0);
    ::_exit(out && write_file_synced(out->file("config.json"), {"{}"}) ? 0 : 1);   // killed before commit()
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_FALSE(fs::is_empty(dir.path()));
  EXPECT_FALSE(fs::exists(dir.file("m")));
  { auto out = AtomicFolder::begin(dir.file("m"), 0); }
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

// A file of a tebibyte that takes no room: what is saved must be refused before the disk is full.
TEST(AtomicFolder, SaysWhenThereIsNoRoom) {
  const std::uint64_t huge = 1ull << 40;
  const auto dir = folder_of({{"model.safetensors", safetensors_of(R"({"a":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}})", "")}});
  struct stat info {};
  ASSERT_EQ(::stat(dir.file("model.safetensors").c_str(), &info), 0);
  if (::truncate(dir.file("model.safetensors").c_str(), info.st_size + static_cast<off_t>(huge)) != 0) GTEST_SKIP() << "no sparse files here";
  const auto model = Checkpoint::open(dir.path());
  ASSERT_TRUE(model) << model.error().message;
  if (base::free_bytes(dir.path()) > huge) GTEST_SKIP() << "this disk has room for it";
  const auto status = save_checkpoint(*model, dir.file("out"), {});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kResourceExhausted) << status.error().message;
  EXPECT_FALSE(fs::exists(dir.file("out")));
}

}  // namespace
}  // namespace musacoder::llm
