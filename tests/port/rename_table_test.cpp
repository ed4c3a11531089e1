// The tables: what they say, that both ways fit, and that what is malformed is refused with its place.
#include "port/rename_table.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <set>

#include "base/files.h"
#include "support.h"

namespace musacoder::port {
namespace {

using ::testing::HasSubstr;

TEST(RenameTable, EveryListedNameComesBack) {
  std::size_t one_way = 0;
  for (const auto& [cuda, group_and_musa] : table().listed()) {
    const auto& [group, musa] = group_and_musa;
    const bool header =
        cuda.find('.') != std::string::npos || cuda.find('/') != std::string::npos || cuda == "nvfunctional";
    const auto back =
        header ? table().header(musa, false, Dialect::kCuda) : table().name(musa, Dialect::kCuda);
    ASSERT_TRUE(back) << cuda << " → " << musa;
    if (table().is_one_way(cuda))
      ++one_way;
    else
      EXPECT_EQ(back->to, cuda);
  }
  EXPECT_EQ(one_way, 1u) << "cublas.h only";
  EXPECT_GT(table().size(), 10000u);
}

TEST(RenameTable, KnowsTheGroupsOfTheToolkit) {
  std::set<std::string> groups;
  for (const auto& [cuda, group_and_musa] : table().listed()) groups.insert(group_and_musa.first);
  for (const char* group : {"runtime", "driver", "cublas", "cudnn", "cufft", "curand", "cusparse", "cusolver",
                            "cupti", "nccl", "nvrtc", "nvtx", "types", "torch", "headers"})
    EXPECT_TRUE(groups.count(group)) << group;
}

TEST(RenameTable, SpellsAsTheVendorDoes) {
  // Names and targets from the vendor's public tables.
  const std::pair<const char*, const char*> pairs[] = {
      {"CUDA_ERROR_NVLINK_UNCORRECTABLE", "MUSA_ERROR_MTLINK_UNCORRECTABLE"},
      {"curandStatePhilox4_32_10_t", "murand_state_philox4x32_10"},
      {"CU_AD_FORMAT_NV12", "MU_AD_FORMAT_NV12"},
      {"CUPTI_CBID_NVTX_nvtxNameCudaDeviceA", "MUPTI_CBID_MTTX_mttxNameMusaDeviceA"},
      {"cusolverDnCungqr", "musolverDnMungqr"},
      {"CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION", "MUBLASLT_ALGO_CONFIG_CUSTOM_OPTION"},
      {"PFN_cuArray3DCreate_v2000", "PFN_muArray3DCreate_v2000"},
      {"__cudaRegisterFatBinary", "__musaRegisterFatBinary"},
      {"cudaErrorCudartUnloading", "musaErrorMusartUnloading"},
      {"nppiAbs_16s_C1IR", "mtppiAbs_16s_C1IR"},
      {"getCurrentCUDAStream", "getCurrentMUSAStream"},
      {"__nv_bfloat162", "__mt_bfloat162"},
  };
  for (const auto& [cuda, musa] : pairs) {
    ASSERT_TRUE(table().name(cuda, Dialect::kMusa)) << cuda;
    EXPECT_EQ(table().name(cuda, Dialect::kMusa)->to, musa);
    EXPECT_EQ(table().name(musa, Dialect::kCuda)->to, cuda);
  }
  EXPECT_FALSE(table().name("cudaMallocOrDie", Dialect::kMusa));
  EXPECT_FALSE(table().name("cuda", Dialect::kMusa));
  EXPECT_FALSE(table().name("CUDA_CHECK", Dialect::kMusa));
}

// A copy of the tables whose rules are changed.
class MalformedTable : public ::testing::Test {
 protected:
  std::string message(const std::string& from, const std::string& to) {
    const std::string source = std::string(MC_SOURCE_DIR) + "/runtime/musa/renames";
    auto folder = base::TempDir::create("renames");
    EXPECT_TRUE(folder);
    std::filesystem::copy(source, folder->path(), std::filesystem::copy_options::overwrite_existing);
    std::string rules = *base::read_file(source + "/rules.toml");
    const std::size_t at = rules.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    rules.replace(at, from.size(), to);
    EXPECT_TRUE(base::write_file(folder->file("rules.toml"), rules));
    const auto loaded = RenameTable::load(folder->path());
    return loaded ? "" : loaded.error().message;
  }
};

TEST_F(MalformedTable, IsRefusedWithItsPlace) {
  EXPECT_THAT(message("version = 1", "version = 2"), HasSubstr("`version` is not 1"));
  EXPECT_THAT(message("version = 1", "version = "), HasSubstr("rules.toml:"));
  EXPECT_THAT(message("{ from = \"cuda\", to = \"musa\" },", "{ from = \"cuda\" },"),
              HasSubstr("spelling[0]: `to` is missing"));
  EXPECT_THAT(message("left = \"edge\"", "left = \"rim\""),
              HasSubstr("left is \"edge\" or absent, not \"rim\""));
  EXPECT_THAT(message("right = \"upper\"", "right = \"big\""), HasSubstr("right knows upper, lower and _"));
  EXPECT_THAT(message("language = \"cpp\", group = \"torch\", from = \"cuda\"",
                      "language = \"c\", group = \"torch\", from = \"cuda\""),
              HasSubstr("language is cpp or python"));
  EXPECT_THAT(message("to = \"mublas.h\", one_way = true", "to = \"mublas.h\""),
              HasSubstr("one of them must be one_way"));
  EXPECT_THAT(message("suffixes = [\"_params_st\"", "suffixes = [3, \"_params_st\""),
              HasSubstr("`suffixes` holds what is no text"));
}

TEST(RenameTable, SaysWhichFileIsMissing) {
  EXPECT_EQ(RenameTable::load("/nonexistent").error().code, Code::kNotFound);
  auto folder = base::TempDir::create("renames");
  ASSERT_TRUE(folder);
  EXPECT_THAT(RenameTable::load(folder->path()).error().message, HasSubstr("rules.toml"));
}

}  // namespace
}  // namespace musacoder::port
