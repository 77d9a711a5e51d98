// What the compiler made of our row-wise kernels: each refusal of its table, and the table against the profiles.
#include "ops/plan/kernel_resources.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "arch/files.hpp"
#include "ops/csv.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::kernel_resources_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::refusal;

std::string kernels_file(const std::string& name) { return read_text_file(data_folder() + "/kernels/" + name); }
std::string table() { return kernels_file("own_sm90.built.csv"); }

std::string refusal_of(const std::string& from, const std::string& to) {
  std::string text = table();
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  return refusal([&] { RowResources(text, "built.csv"); });
}

/// The kernels that the menus name are those on file. Eight vectors and their exponentials do not fit the 64 registers
/// of 1024 threads.
TEST(KernelResources, AreFoundByWhatAPlanChooses) {
  const RowResources r(table(), "built.csv");
  const Rowwise wide{RowwiseKind::softmax, 1000, 300000};
  EXPECT_EQ(r.row(wide.kind, choose_row_tile(wide, 132), true).registers, 64);
  EXPECT_GT(r.selection(std::size(kTopKMenu) - 1, true, true).stack_B, 100);
  EXPECT_EQ(r.selection(std::size(kTopKMenu) - 1, true, false).stack_B, 0);
  EXPECT_LT(r.chain(ChainOp::norm_backward, 7, ChainFit::full).registers,
            r.chain(ChainOp::norm_backward, 7, ChainFit::whole).registers);
  EXPECT_EQ(r.transpose(true, true).shared_B, 128 * 128 * 2);
  EXPECT_GT(r.rope(true).shared_B, 16384);
}

TEST(KernelResources, RefuseAFileThatLacksAKernelOrANumber) {
  EXPECT_THAT(
      refusal_of("\"row_held<Softmax, 32, 1, 0, 1, 0, 6>\"", "\"row_held<Softmax, 32, 1, 0, 1, 0, 7>\""),
      AllOf(HasSubstr("built.csv: no kernel 'row_held<Softmax, 32, 1, 0, 1, 0, 6>'"), HasSubstr("did you mean")));
  EXPECT_THAT(refusal_of("gather_rows<1>,14", "gather_rows<1>,x"),
              HasSubstr("registers: expected a whole number, found 'x'"));
  EXPECT_THAT(refusal_of("gather_rows<1>,14", "gather_rows<1>,-1"), HasSubstr("found '-1'"));
  EXPECT_THAT(refusal_of("gather_rows<1>,14", "gather_rows<4>,14"), HasSubstr("'gather_rows<4>' stands there twice"));
  EXPECT_THAT(refusal_of("gather_rows<1>,14,", "gather_rows<1>,"), HasSubstr("expected 6 cells"));
  EXPECT_THAT(refusal_of("registers", "register"), HasSubstr("registers"));
}

/// The profiles are of the kernels on file: after a change of a kernel both are made again. (The profiler tells what a
/// thread is given, which is 16 registers at least.)
TEST(KernelResources, AreThoseThatTheProfilerSaw) {
  std::map<std::string, std::pair<std::string, std::string>, std::less<>> built;
  const std::string built_text = table();
  CsvReader on_file(built_text, "built.csv");
  const CsvHeader head(on_file);
  while (on_file.next()) {
    const auto f = on_file.fields();
    built[std::string(f[0])] = {std::to_string(std::max(16, std::stoi(std::string(f[1])))), std::string(f[2])};
  }
  std::size_t seen = 0;
  for (const char* profile : {"train", "heldout", "new_rows", "counts"}) {
    const std::string name = std::string("profiled_h200.") + profile + ".csv";
    const std::string text = kernels_file(name);
    CsvReader launches(text, name);
    const CsvHeader columns(launches);
    const std::size_t kernel = columns.require("kernel"), registers = columns.require("registers"),
                      shared = columns.require("shared_static_B");
    while (launches.next()) {
      const auto f = launches.fields();
      const auto found = built.find(f[kernel]);
      if (found == built.end()) continue;  // a matrix product or attention
      ++seen;
      EXPECT_EQ(f[registers], found->second.first) << name << ": " << f[kernel];
      EXPECT_EQ(f[shared], found->second.second) << name << ": " << f[kernel];
    }
  }
  EXPECT_GT(seen, 1200U);
}

}  // namespace
}  // namespace plumbline::kernel_resources_test
