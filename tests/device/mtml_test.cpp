// What is known of Moore Threads' GPUs by their names, and what is said where there is none.
#include "device/musa/mtml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "device/musa/musa_device.h"

namespace musacoder::device {
namespace {

using ::testing::HasSubstr;
using ::testing::Pair;

TEST(Mtml, ArchitecturesAndWarps) {
  ::unsetenv("TORCH_MUSA_ARCH_LIST");
  EXPECT_THAT(musa_architecture("MTT S5000"), Pair("mp_31", 32));
  EXPECT_THAT(musa_architecture("MTT S4000"), Pair("mp_22", 128));
  EXPECT_THAT(musa_architecture("MTT S80"), Pair("mp_21", 128));
  EXPECT_THAT(musa_architecture("MTT S3000"), Pair("mp_21", 128));
  EXPECT_THAT(musa_architecture("MTT X1"), Pair("", 0));
  ::setenv("TORCH_MUSA_ARCH_LIST", "31;22", 1);
  EXPECT_THAT(musa_architecture("MTT X1"), Pair("mp_31", 32));
  ::setenv("TORCH_MUSA_ARCH_LIST", "no number", 1);
  EXPECT_THAT(musa_architecture("MTT S4000"), Pair("mp_22", 128));
  ::unsetenv("TORCH_MUSA_ARCH_LIST");
}

TEST(Mtml, ALibraryThatIsNotThereOrNone) {
  EXPECT_THAT(Mtml::open("/nowhere/libmtml.so").error().message, HasSubstr("no Moore Threads driver: /nowhere/libmtml.so does not load"));
  EXPECT_THAT(Mtml::open("libc.so.6").error().message, HasSubstr("lacks functions of MTML"));
  auto device = make_musa_device({.backend = "musa", .runtime_dir = "/nowhere"}, "/nowhere/libmtml.so");
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, Code::kUnavailable);
  EXPECT_THAT(device.error().message, HasSubstr("--backend vgpu needs no GPU"));
}

}  // namespace
}  // namespace musacoder::device
