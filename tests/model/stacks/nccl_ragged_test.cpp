// Parts that are no whole 16 bytes, which NCCL copies element by element: by hand, and as they were recorded.
#include <gtest/gtest.h>

#include <cmath>

#include "model/machines.hpp"
#include "model/predict.hpp"
#include "ops/table/text.hpp"
#include "tests/support/planners.hpp"

namespace plumbline::nccl_ragged_test {
namespace {

using testing_support::scalars_of;

class NcclRagged : public testing::Test {
 protected:
  Seconds time_of(const std::string& op, const std::string& shape) {
    PredictOptions options;
    options.alone = true;
    predictor_.predict(parse_op(op, "bf16", shape + ";multicast=0"), machine_, out_, options);
    return out_.time;
  }
  Machine machine_ = machines().get({.gpu = "h200_sxm", .options = MachineOptions{"nccl"}});
  Predictor predictor_;
  OpPrediction out_;
};

/// A 24th of what is passed on, at a channel's rate of single elements: three quarters of an all-gather's buffer, one part of
/// a reduce-scatter's, none of an all-reduce's.
TEST_F(NcclRagged, ChannelsMoveElements) {
  const Bandwidth element = scalars_of(machine_, "library.nccl_ring_simple").element;
  ASSERT_GT(element, Bandwidth{});
  const double uneven = (64 << 20) + 8;  // parts of 16 MiB and two bytes
  const auto longer_by = [&](const char* op) {
    const Seconds ragged = time_of(op, "bytes=67108872;gpus=4"), whole = time_of(op, "bytes=67108864;gpus=4");
    return ragged - whole;
  };
  const Seconds part = uneven / 4 / 24 * units::B / element;
  EXPECT_NEAR(longer_by("all_gather") / (3.0 * part), 1, 1e-3);
  EXPECT_NEAR(longer_by("reduce_scatter") / part, 1, 1e-3);
  EXPECT_NEAR(longer_by("all_reduce").in(units::us), 0, 1e-3);
}

TEST_F(NcclRagged, MessagesMoveElementsOnHalfOfAChannelsWarps) {
  const Bandwidth element = scalars_of(machine_, "library.nccl_peer_simple").element;
  const Bandwidth of_all = scalars_of(machine_, "library.nccl_ring_simple").element;
  EXPECT_NEAR(of_all / element, 2, 0.4) << "two numbers, each fitted by itself";
  const Seconds ragged = time_of("all_to_all", "bytes=67108868;gpus=2"),
                whole = time_of("all_to_all", "bytes=67108864;gpus=2");
  EXPECT_NEAR((ragged - whole) / (33554434.0 / 16 * units::B / element), 1, 1e-3);
  EXPECT_NEAR(time_of("all_to_all", "bytes=8196;gpus=2") / time_of("all_to_all", "bytes=8192;gpus=2"), 1, 1e-3)
      << "short messages have flags beside their data anyway";
}

/// data/measurements/h200/links; the last three of four GPUs, which nothing was fitted to.
TEST_F(NcclRagged, TakesAsLongAsItWasRecorded) {
  struct Row {
    const char *op, *shape;
    double us;
  };
  for (const Row& row :
       {Row{"all_to_all", "bytes=108040440;gpus=2", 468.8}, Row{"all_to_all", "bytes=720984632;gpus=2", 2084.1},
        Row{"all_gather", "bytes=181694396;gpus=2", 561.9}, Row{"reduce_scatter", "bytes=348884244;gpus=2", 949.3},
        Row{"all_to_all", "bytes=733954392;gpus=4", 3387.6}, Row{"all_gather", "bytes=236149840;gpus=4", 931.8},
        Row{"reduce_scatter", "bytes=377848344;gpus=4", 1115.4}}) {
    EXPECT_NEAR(std::log(time_of(row.op, row.shape).in(units::us) / row.us), 0, 0.1) << row.op << ' ' << row.shape;
  }
}

}  // namespace
}  // namespace plumbline::nccl_ragged_test
