#include "judge/installation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"

namespace musacoder::judge {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class InstallationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::move(*base::TempDir::create("venv"));
    site_ = dir_.file("lib/python3.11/site-packages");
    for (const char* file :
         {"torch/__init__.py", "torch/nn/linear.py", "torch/lib/libtorch.so", "numpy/__init__.py",
          "einops/__init__.py", "six.py", "torch-2.0.dist-info/RECORD"})
      write(file);
    ASSERT_TRUE(base::make_dirs(dir_.file("bin")));
  }
  void write(const std::string& file, const std::string& text = "x") {
    const std::string path = site_ + "/" + file;
    ASSERT_TRUE(base::make_dirs(fs::path(path).parent_path()));
    ASSERT_TRUE(base::write_file(path, text));
  }
  Installation now() { return Installation::of(dir_.file("bin/python")); }
  base::TempDir dir_;
  std::string site_;
};

TEST_F(InstallationTest, StaysItselfWhenThingsAreAdded) {
  const Installation installation = now();
  write("another/__init__.py");
  write("torch/__pycache__/x.pyc");
  write("torch/nn/__pycache__/x.py");
  write("torch/notes.txt");
  write("another-1.0.dist-info/RECORD");
  EXPECT_FALSE(installation.changed(true));
}

TEST_F(InstallationTest, SeesWhatIsGoneOrReplaced) {
  const Installation installation = now();
  fs::rename(site_ + "/torch/nn/linear.py", site_ + "/kept");
  EXPECT_FALSE(installation.changed(false));
  EXPECT_THAT(installation.changed(true).value(), HasSubstr("files of torch"));
  fs::rename(site_ + "/kept", site_ + "/torch/nn/linear.py");
  EXPECT_FALSE(installation.changed(true)) << "back again";
  fs::rename(site_ + "/einops", site_ + "/hidden");
  EXPECT_THAT(installation.changed(false).value(), HasSubstr("einops is gone"));
  fs::rename(site_ + "/hidden", site_ + "/einops");
  write("numpy/__init__.py", "another version");
  EXPECT_THAT(installation.changed(false).value(), HasSubstr("numpy was replaced"));
}

TEST_F(InstallationTest, WithoutAnEnvironmentNothingChanges) {
  EXPECT_FALSE(Installation::of("").changed(true));
  EXPECT_FALSE(Installation::of("/nowhere/bin/python").changed(true));
}

}  // namespace
}  // namespace musacoder::judge
