#include "service/artifacts.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "service/nats_link.h"
#include "service/nats_server.h"
#include "service/server.h"
#include "service/support.h"

namespace musacoder::service {
namespace {

const std::string kKey(64, 'a');
std::string bundle(std::size_t bytes, const std::string& key = kKey) {
  std::string module(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) module[i] = static_cast<char>(i * 2654435761u >> 24);
  return build::pack_bundle({R"({"version":1,"result":{"hash":")" + key + "\"}}", module});
}

void keeps_what_it_is_given(build::ArtifactStore& store, std::size_t bytes) {
  EXPECT_FALSE(*store.has(kKey));
  EXPECT_FALSE(store.get(kKey)->has_value());
  auto put = store.put(kKey, bundle(bytes));
  ASSERT_TRUE(put.has_value()) << put.error().message;
  EXPECT_TRUE(*store.has(kKey));
  EXPECT_EQ(**store.get(kKey), bundle(bytes));
  EXPECT_TRUE(store.put(kKey, bundle(bytes)).has_value());
  EXPECT_FALSE(store.put(kKey, bundle(bytes, std::string(64, 'b'))).has_value()) << "of another address";
}

TEST(Artifacts, InAFolder) {
  auto dir = base::TempDir::create("artifacts");
  keeps_what_it_is_given(**open_artifact_store("dir:" + dir->path(), {}), 100'000);
  EXPECT_FALSE(open_artifact_store("ftp://x", {}).has_value());
  EXPECT_FALSE(open_artifact_store("dir:", {}).has_value());
}

TEST(Artifacts, InNats) {
  NatsServer server;
  if (!server.start()) GTEST_SKIP() << server.why();
  auto store = open_artifact_store(server.url("p"), {});
  ASSERT_TRUE(store.has_value()) << store.error().message;
  keeps_what_it_is_given(**store, 3u << 20);
  server.kill();
  ASSERT_TRUE(server.start()) << server.why();
  EXPECT_TRUE((*store)->get(kKey)->has_value()) << "outlives a restart";
  auto link = NatsLink::open(*parse_nats_url(server.url()));
  const base::Deadline deadline = base::Deadline::in(5);
  ASSERT_TRUE((*link)->put("p.artifacts." + kKey + ".0", "x", {}, deadline).has_value());
  EXPECT_EQ((*store)->get(kKey).error().code, Code::kInvalidArgument) << "damage is seen";
  ASSERT_TRUE((*link)->purge("p_artifacts", "p.artifacts." + kKey + ".1", deadline).has_value());
  EXPECT_FALSE((*store)->get(kKey)->has_value());
}

TEST(Artifacts, OverHttp) {
  auto dir = base::TempDir::create("artifacts");
  ServiceConfig config;
  config.artifacts = build::make_folder_store(dir->path());
  config.tokens =
      *TokenSet::parse(fmt::format("[[token]]\nname='w'\nrole='worker'\nsha256='{}'\n"
                                   "[[token]]\nname='c'\nsha256='{}'\n",
                                   base::sha256_hex("worker-token"), base::sha256_hex("client-token")),
                       "test");
  Harness h(std::move(config));
  Server server(*h.router, {.listen = {"127.0.0.1:0"}});
  ASSERT_TRUE(server.start());
  const std::string url = "http://" + server.addresses().at(0);
  keeps_what_it_is_given(**open_artifact_store(url, {.token = "worker-token"}), 1u << 20);
  auto stranger = open_artifact_store(url, {.token = "client-token"});
  EXPECT_FALSE((*stranger)->get(kKey).has_value()) << "clients may not";
  EXPECT_FALSE((*stranger)->put(kKey, bundle(10)).has_value());
  auto worker = open_artifact_store(url, {.token = "worker-token"});
  auto large = (*worker)->put(std::string(64, 'b'), bundle(9u << 20, std::string(64, 'b')));
  EXPECT_FALSE(large.has_value()) << "the server's limit of a body";
  // Past the client's own check.
  auto put = [&](const std::string& key, const std::string& body) {
    auto request = parse_target("/v1/artifacts/" + key);
    request->method = "PUT";
    request->authorization = "Bearer worker-token";
    request->body = body;
    return h.router->handle(*request).status;
  };
  EXPECT_EQ(put(std::string(64, 'c'), "nonsense"), 422);
  EXPECT_EQ(put(std::string(64, 'c'), bundle(10)), 422);
  EXPECT_EQ(put("x", bundle(10)), 422);
  EXPECT_EQ(put(std::string(64, 'c'), bundle(10, std::string(64, 'c'))), 200);
}

}  // namespace
}  // namespace musacoder::service
