// What the planner of our row-wise kernels counts, against every launch that was profiled (data/kernels/README.md):
// how a shape is cut, how many CTAs an SM holds, what warps execute.
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "arch/files.hpp"
#include "arch/gpu/gpu.hpp"
#include "model/stacks/own/row_kernels.hpp"
#include "ops/csv.hpp"
#include "ops/table/text.hpp"

namespace plumbline::row_profile_test {
namespace {

struct Profiled {
  std::string op, place;
  double ctas = 0, threads = 0, ctas_per_sm = 0, instructions = 0, sfu = 0;
  RowKernel planned;
};

double number(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// First launches of a profile's row-wise cases, with what the planner says of them. (A second one is of the few
/// elements that are no vector.)
std::vector<Profiled> profiled(const std::string& file) {
  static const auto counts = load_kernel_counts("own_sm90");
  static const Gpu gpu = load_gpu("h200_sxm");
  // rmsnorm_backward was profiled as the attention chain had it; training's own kernel runs it now
  const std::set<std::string, std::less<>> others{"op", "gemm", "attention_decode", "attention_prefill",
                                                  "rmsnorm_backward"};
  const std::string text = read_text_file(data_folder() + "/kernels/" + file);
  CsvReader reader(text, file);
  const CsvHeader header(reader);
  const auto column = [&](const char* name) { return header.require(name); };
  const std::size_t op = column("op"), dtype = column("dtype"), shape = column("shape"), launch = column("launch"),
                    grid = column("grid"), block = column("block"), resident = column("ctas_per_sm"),
                    instructions = column("warp_instructions"), sfu = column("xu_instructions");
  std::vector<Profiled> out;
  while (reader.next()) {
    const auto f = reader.fields();
    if (others.count(f[op]) > 0 || f[launch] != "0") continue;
    const Op what = parse_op(f[op], f[dtype], f[shape]);
    out.push_back({std::string(f[op]), file + ":" + std::to_string(reader.line()), number(f[grid]), number(f[block]),
                   number(f[resident]), number(f[instructions]), number(f[sfu]),
                   row_kernel(what, work(what), *counts, gpu)});
  }
  return out;
}

class RowProfile : public testing::TestWithParam<const char*> {};

TEST_P(RowProfile, ShapesAreCutAsTheyWereLaunched) {
  for (const Profiled& p : profiled(GetParam())) {
    EXPECT_EQ(p.planned.plan.ctas, p.ctas) << p.place;
    EXPECT_EQ(p.planned.plan.threads, p.threads) << p.place;
    EXPECT_EQ(p.planned.plan.ctas_per_sm, p.ctas_per_sm) << p.place;
  }
}

/// Launches of a few CTAs are left out: threads behind the last row execute less.
TEST_P(RowProfile, InstructionsAreThoseExecuted) {
  std::map<std::string, std::vector<double>> errors;
  for (const Profiled& p : profiled(GetParam())) {
    if (p.ctas < 16) continue;
    const double error = std::abs(p.planned.instructions * p.ctas / p.instructions - 1);
    EXPECT_LT(error, 0.21) << p.place;
    errors[p.op].push_back(error);
    if (p.sfu > p.instructions / 100) {
      EXPECT_NEAR(p.planned.sfu * p.ctas / p.sfu, 1, 0.36) << p.place;
    }
  }
  for (auto& [op, of_op] : errors) {
    std::sort(of_op.begin(), of_op.end());
    EXPECT_LT(of_op[of_op.size() / 2], 0.05) << op;
  }
  EXPECT_GT(errors.size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(H200, RowProfile,
                         testing::Values("profiled_h200.train.csv", "profiled_h200.heldout.csv",
                                         "profiled_h200.new_rows.csv", "profiled_h200.counts.csv"));

}  // namespace
}  // namespace plumbline::row_profile_test
