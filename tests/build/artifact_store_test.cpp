#include "build/artifact_store.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "base/hash.h"
#include "build/cache.h"

namespace musacoder::build {
namespace {

const std::string kKey(64, 'a');

std::string manifest(const std::string& key) { return R"({"version":1,"result":{"hash":")" + key + "\"}}"; }

TEST(Bundle, ComesBackWholeAndDamageIsSeen) {
  const std::string text = pack_bundle({manifest(kKey), std::string("\x7f"
                                                                    "ELF\n\0\n",
                                                                    7)});
  auto bundle = unpack_bundle(kKey, text);
  ASSERT_TRUE(bundle.has_value()) << bundle.error().message;
  EXPECT_EQ(bundle->module.size(), 7u);
  EXPECT_FALSE(check_bundle(std::string(64, 'b'), text)) << "another address";
  EXPECT_FALSE(check_bundle("../../etc/passwd", text));
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_FALSE(check_bundle(kKey, damaged)) << i;
    EXPECT_FALSE(check_bundle(kKey, text.substr(0, i))) << i;
  }
}

TEST(FolderStore, KeepsTheFirstAndDropsTheDamaged) {
  auto dir = base::TempDir::create("store");
  auto store = make_folder_store(dir->path());
  EXPECT_FALSE(store->get(kKey)->has_value());
  const std::string first = pack_bundle({manifest(kKey), "first"});
  EXPECT_TRUE(store->put(kKey, first));
  EXPECT_TRUE(store->put(kKey, pack_bundle({manifest(kKey), "second"})));
  EXPECT_EQ(**store->get(kKey), first);
  EXPECT_FALSE(store->put(kKey, "nonsense"));
  EXPECT_FALSE(*store->has("../x"));
  ASSERT_TRUE(base::write_file(dir->file("aa/" + kKey), "damaged"));
  EXPECT_FALSE(store->get(kKey).has_value());
  EXPECT_FALSE(*store->has(kKey));
}

TEST(Cache, SharesWhatWasBuiltAndTakesWhatOthersBuilt) {
  auto dir = base::TempDir::create("share");
  std::shared_ptr<ArtifactStore> store = make_folder_store(dir->file("store"));
  ASSERT_TRUE(base::write_file(dir->file("module.so"), "machine code"));
  BuildResult result;
  result.ok = true;
  result.hash = kKey;
  result.headers = "slim";
  {
    Cache alone(dir->file("a"));
    ASSERT_TRUE(alone.store(kKey, result, dir->file("module.so")));
    EXPECT_FALSE(*store->has(kKey));
    Cache one(dir->file("a"), store);
    EXPECT_TRUE(one.load(kKey)) << "from before there was a store";
    EXPECT_TRUE(*store->has(kKey));
  }
  Cache two(dir->file("b"), store);
  auto hit = two.load(kKey);
  ASSERT_TRUE(hit);
  EXPECT_TRUE(hit->ok && hit->cached);
  EXPECT_EQ(*base::read_file(hit->artifact), "machine code");
  BuildResult failed;
  failed.status = "compile_error:nvcc";
  failed.hash = std::string(64, 'c');
  ASSERT_TRUE(two.store(failed.hash, failed, ""));
  EXPECT_EQ(Cache(dir->file("c"), store).load(failed.hash)->status, "compile_error:nvcc")
      << "failures are shared too";
  ASSERT_TRUE(base::write_file(dir->file("store/aa/" + kKey), "damaged"));
  EXPECT_FALSE(Cache(dir->file("d"), store).load(kKey)) << "what is damaged is built anew";
  EXPECT_FALSE(base::exists(dir->file("d/build/aa/" + kKey)));
}

}  // namespace
}  // namespace musacoder::build
