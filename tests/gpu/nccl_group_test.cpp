// NCCL is loaded by name: what is said where it isn't there, and that multicast is off before it starts.
#include "kernels/collective/nccl_group.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "arch/error.hpp"

namespace plumbline {
namespace {

TEST(NcclGroup, NamesTheLibraryThatIsNotThere) {
  try {
    const NcclGroup group("/nowhere/libnccl.so.2", {0, 1});
    FAIL() << "expected a DeviceError";
  } catch (const DeviceError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("/nowhere/libnccl.so.2"));
  }
}

TEST(NcclGroup, RefusesALibraryWithoutNcclsFunctions) {
  try {
    const NcclGroup group("libm.so.6", {0, 1});
    FAIL() << "expected a DeviceError";
  } catch (const DeviceError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("ncclGetVersion"));
  }
}

TEST(NcclGroup, SwitchesMulticastOffWhateverTheEnvironmentSays) {
  setenv("NCCL_NVLS_ENABLE", "1", 1);
  EXPECT_THROW(const NcclGroup group("/nowhere/libnccl.so.2", {0, 1}), DeviceError);
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "0");
}

}  // namespace
}  // namespace plumbline
