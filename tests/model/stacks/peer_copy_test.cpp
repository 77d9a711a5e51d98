// Copies between two GPUs by a copy engine: by hand, against what was recorded, and where they end.
#include <gtest/gtest.h>

#include "arch/error.hpp"
#include "model/predict.hpp"
#include "model/schedule/side_by_side.hpp"
#include "ops/table/text.hpp"
#include "tests/support/planners.hpp"

namespace plumbline::peer_copy_test {
namespace {

using testing_support::scalars_of;

Machine h200() { return make_machine(load_gpu("h200_sxm"), {}); }

TEST(PeerCopy, TakesItsStartAndItsBytesOverTheLinks) {
  const Machine machine = h200();
  const FamilyScalars& f = scalars_of(machine, "library.copy_engine");
  const double bytes = 64 << 20;
  const OpPrediction out = predict(parse_op("p2p_copy", "", "bytes=67108864"), machine);
  const Seconds by_hand = f.fixed + bytes * units::B / (f.link_share * 450.0 * units::GB_per_s);
  EXPECT_NEAR((out.time - machine.rates().gap_graph) / by_hand, 1, 1e-9);
  EXPECT_EQ(out.bound, Bound::network);
  EXPECT_EQ(sms_held(out, machine.rates()), 0);
  EXPECT_GT(*out.power, *predict(parse_op("h2d", "", "bytes=67108864"), machine).power) << "NVLinks are awake";
}

/// data/measurements/h200/links: means of three pairs of H200, one copy each way at once. The start is that of host copies,
/// 0.4 us longer than short ones between GPUs took.
TEST(PeerCopy, TakesAsLongAsItWasRecorded) {
  const Machine machine = h200();
  struct Row {
    const char* shape;
    double us, within;
  };
  for (const Row& row :
       {Row{"bytes=1048576", 4.997, 0.11}, Row{"bytes=16777216", 46.6, 0.06}, Row{"bytes=268435456", 689.3, 0.02}}) {
    EXPECT_NEAR(predict(parse_op("p2p_copy", "", row.shape), machine).time.in(units::us) / row.us, 1, row.within)
        << row.shape;
  }
}

TEST(PeerCopy, EndsAtTheNode) {
  const Machine machine = h200();
  EXPECT_NO_THROW(predict(parse_op("p2p_copy", "", "bytes=4096;stride=7"), machine));
  EXPECT_THROW(predict(parse_op("p2p_copy", "", "bytes=4096;stride=8"), machine), NotModelled);
  EXPECT_THROW(parse_op("p2p_copy", "", "bytes=4096;both=1"), BadInput) << "of host copies alone";
}

}  // namespace
}  // namespace plumbline::peer_copy_test
