#include "validate/probe/disk_read.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "arch/error.hpp"
#include "tests/support/run_program.hpp"

namespace plumbline::disk_read_test {
namespace {

TEST(DiskRead, ReadsAllOfItWithAnyNumberOfThreadsAndLeavesNothing) {
  const test::TemporaryFolder folder;
  {
    const DiskFile file(folder / "rows.csv", std::size_t{5} << 20);
    EXPECT_FALSE(std::filesystem::is_empty(folder / "."));
    for (const int threads : {1, 3, 16}) EXPECT_GT(file.read(threads).seconds, 0) << threads;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder / "."));
}

TEST(DiskRead, SaysWhereItCannotWrite) {
  const test::TemporaryFolder folder;
  EXPECT_THROW(DiskFile(folder / "nowhere/rows.csv", std::size_t{1} << 20), BadInput);
}

}  // namespace
}  // namespace plumbline::disk_read_test
