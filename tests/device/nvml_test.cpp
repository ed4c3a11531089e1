#include "device/cuda/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "device/cuda/cuda_device.h"

namespace musacoder::device {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NvmlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("FAKE_NVML");
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  }
  void TearDown() override { SetUp(); }
};

TEST_F(NvmlTest, ListsGpus) {
  auto nvml = Nvml::open(MC_FAKE_NVML);
  ASSERT_TRUE(nvml) << nvml.error().message;
  auto gpus = (*nvml)->gpus();
  ASSERT_TRUE(gpus);
  ASSERT_EQ(gpus->size(), 2u);
  EXPECT_EQ((*gpus)[0].name, "NVIDIA H200");
  EXPECT_EQ((*gpus)[1].uuid, "GPU-bbbb");
  EXPECT_EQ((*gpus)[1].index, 1u);
  EXPECT_EQ((*gpus)[0].driver, "580.95.05");
  EXPECT_EQ((*gpus)[0].cuda, "13.0");
  EXPECT_EQ((*gpus)[0].capability, "9.0");
  EXPECT_EQ((*gpus)[0].memory_bytes, 151ull << 30);
}

TEST_F(NvmlTest, Samples) {
  auto nvml = Nvml::open(MC_FAKE_NVML);
  ASSERT_TRUE(nvml);
  auto now = (*nvml)->sample(1);
  ASSERT_TRUE(now) << now.error().message;
  EXPECT_EQ(now->sm_mhz, 1980u);
  EXPECT_EQ(now->memory_mhz, 3201u);
  EXPECT_EQ(now->temperature_c, 41u);
  EXPECT_DOUBLE_EQ(now->power_w, 123.456);
  EXPECT_EQ(now->busy_percent, 73u);
  EXPECT_THAT(now->throttle, ElementsAre("sw_power_cap", "hw_thermal"));
  ASSERT_EQ(now->processes.size(), 2u);
  EXPECT_EQ(now->processes[0].pid, 1000);
  EXPECT_EQ(now->processes[0].memory_bytes, 512ull << 20);
  EXPECT_EQ(now->processes[1].memory_bytes, 0u);
  EXPECT_FALSE((*nvml)->sample(7));
}

TEST_F(NvmlTest, MakesRoomForManyProcesses) {
  ::setenv("FAKE_NVML", "crowded", 1);
  auto nvml = Nvml::open(MC_FAKE_NVML);
  ASSERT_TRUE(nvml);
  EXPECT_EQ((*nvml)->sample(0)->processes.size(), 200u);
}

TEST_F(NvmlTest, ThrottleMaskInWords) {
  EXPECT_THAT(throttle_words(0x1), IsEmpty());
  EXPECT_THAT(throttle_words(0x8), ElementsAre("hw_slowdown"));
  EXPECT_THAT(throttle_words(0x1020), ElementsAre("sw_thermal", "0x1000"));
}

TEST_F(NvmlTest, ProbeChoosesWhatCudaSees) {
  EXPECT_EQ(gpu_probe(MC_FAKE_NVML)->uuid, "GPU-aaaa");
  ::setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  EXPECT_EQ(gpu_probe(MC_FAKE_NVML)->uuid, "GPU-bbbb");
  ::setenv("CUDA_VISIBLE_DEVICES", "GPU-bb,0", 1);
  EXPECT_EQ(gpu_probe(MC_FAKE_NVML)->uuid, "GPU-bbbb");
  for (const char* nothing : {"", "7", "-1", "GPU-cccc"}) {
    ::setenv("CUDA_VISIBLE_DEVICES", nothing, 1);
    auto probe = gpu_probe(MC_FAKE_NVML);
    ASSERT_FALSE(probe) << nothing;
    EXPECT_EQ(probe.error().code, Code::kUnavailable);
    EXPECT_THAT(probe.error().message, HasSubstr("CUDA_VISIBLE_DEVICES"));
  }
}

TEST_F(NvmlTest, SaysWhatIsMissing) {
  const std::pair<const char*, const char*> cases[] = {
      {"down", "Driver Not Loaded"}, {"empty", "no GPU answers"}, {"old", "compute capability 6.0"}};
  for (const auto& [mode, text] : cases) {
    ::setenv("FAKE_NVML", mode, 1);
    auto probe = gpu_probe(MC_FAKE_NVML);
    ASSERT_FALSE(probe) << mode;
    EXPECT_EQ(probe.error().code, Code::kUnavailable);
    EXPECT_THAT(probe.error().message, HasSubstr(text));
  }
  auto probe = gpu_probe("/nowhere/libnvidia-ml.so.1");
  ASSERT_FALSE(probe);
  EXPECT_THAT(probe.error().message, HasSubstr("no NVIDIA driver"));
}

TEST(OtherProcesses, AreThoseThatAreNotOurs) {
  const auto none = [](pid_t) { return false; };
  const auto low = [](pid_t pid) { return pid < 100; };
  EXPECT_EQ(other_processes({}, low, 3), -1);
  EXPECT_EQ(other_processes({{7, 0}, {8, 0}, {700, 0}}, low, 99), 1);
  EXPECT_EQ(other_processes({{700, 0}, {701, 0}, {702, 0}}, none, 2), 1) << "another numbering: by their count";
  EXPECT_EQ(other_processes({{700, 0}}, none, 2), 0) << "contexts of ours that are not made yet";
  EXPECT_TRUE(is_below(::getpid(), ::getpid()));
  EXPECT_TRUE(is_below(::getpid(), ::getppid()));
  EXPECT_FALSE(is_below(::getppid(), ::getpid()));
  EXPECT_FALSE(is_below(0x3fffffff, ::getpid()));
}

TEST_F(NvmlTest, TheBackendSaysWhatIsMissing) {
  auto device =
      make_cuda_device({.backend = "cuda", .runtime_dir = "/nowhere"}, "/nowhere/libnvidia-ml.so.1");
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, Code::kUnavailable);
  EXPECT_THAT(device.error().message, HasSubstr("musacoder doctor"));
  device = make_cuda_device({.backend = "cuda", .runtime_dir = "/nowhere"}, MC_FAKE_NVML);
  ASSERT_FALSE(device);
  EXPECT_THAT(device.error().message, HasSubstr("libmusacoder_ledger.so"));
}

}  // namespace
}  // namespace musacoder::device
