// What looks at a board add up to, and which descriptor a card is.
#include <gtest/gtest.h>

#include "validate/board/nvml_board.hpp"
#include "validate/record/known_gpu.hpp"

namespace plumbline::board_test {
namespace {

BoardSample look(double mhz, double watts, std::uint64_t reasons) {
  BoardSample s;
  s.sm_clock = mhz * units::MHz;
  s.power = watts * units::W;
  s.clock_event_reasons = reasons;
  return s;
}

TEST(Conditions, AreMeansOfWhatWasReadAndAllReasonsSeen) {
  BoardSample without_clock = look(0, 300, 0x20);
  without_clock.sm_clock.reset();
  const Conditions c = conditions({look(1980, 100, 0x1), look(1800, 200, 0x4), without_clock});
  EXPECT_DOUBLE_EQ(c.sm_clock->in(units::MHz), 1890);
  EXPECT_DOUBLE_EQ(c.power->in(units::W), 200);
  EXPECT_FALSE(c.memory_clock.has_value());
  EXPECT_FALSE(c.temperature_C.has_value());
  EXPECT_EQ(c.clock_event_reasons, 0x24U);  // idle is none
}

/// Counters are of the first look and the last; memory is the most that was seen.
TEST(Conditions, CountersAreRatesBetweenTheirFirstAndLastLook) {
  std::vector<BoardSample> looks(4);
  for (std::size_t i = 0; i < looks.size(); ++i) {
    looks[i].at = (10.0 + 0.5 * static_cast<double>(i)) * units::s;
    looks[i].memory_used = (i == 2 ? 9.0 : 5.0) * units::GB;
  }
  looks[0].traffic = Board::Traffic{1.0 * units::GB, 7.0 * units::GB, 2.0 * units::GB, {}};
  looks[3].traffic = Board::Traffic{4.0 * units::GB, 6.0 * units::GB, 2.0 * units::GB, {}};
  const Conditions c = conditions(looks);
  EXPECT_DOUBLE_EQ(c.pcie_tx->in(units::B_per_s), 2e9);
  EXPECT_FALSE(c.pcie_rx.has_value());  // set back meanwhile
  EXPECT_DOUBLE_EQ(c.nvlink_tx->in(units::B_per_s), 0);
  EXPECT_FALSE(c.nvlink_rx.has_value());
  EXPECT_DOUBLE_EQ(c.memory_used->in(units::GB), 9);
  EXPECT_FALSE(c.power.has_value());
}

TEST(Conditions, OfNoSamplesAreEmpty) {
  const Conditions c = conditions({});
  EXPECT_FALSE(c.sm_clock || c.power);
  EXPECT_EQ(c.clock_event_reasons, 0U);
}

TEST(Board, WithoutACardOfThatIdReadsNothing) {
  const Board board("ffff:ff:1f.7");
  EXPECT_FALSE(board.known());
  EXPECT_FALSE(board.power() || board.sm_clock() || board.energy() || board.clock_event_reasons());
  EXPECT_EQ(board.driver(), "");
  BoardSampler sampler(board);
  EXPECT_TRUE(sampler.stop().empty());
}

/// NVML lists this process too, in a container perhaps under its number outside.
TEST(OtherProcesses, AreAllButThisOne) {
  EXPECT_EQ(other_processes({}, 7), 0);  // no NVML
  EXPECT_EQ(other_processes(std::vector<unsigned>{}, 7), 0);
  EXPECT_EQ(other_processes(std::vector<unsigned>{7}, 7), 0);
  EXPECT_EQ(other_processes(std::vector<unsigned>{4001}, 7), 0);
  EXPECT_EQ(other_processes(std::vector<unsigned>{12, 7}, 7), 1);
  EXPECT_EQ(other_processes(std::vector<unsigned>{7, 12, 7, 13}, 7), 2);
  EXPECT_EQ(other_processes(std::vector<unsigned>{4001, 4002}, 7), 1);
}

TEST(OtherProcesses, OfAnUnknownCardAreNotSaid) { EXPECT_FALSE(Board("ffff:ff:1f.7").compute_processes().has_value()); }

TEST(KnownGpu, IsFoundByWhatTheDriverSays) {
  EXPECT_EQ(descriptor_of({"NVIDIA H200", "9.0", 132, 143771.0 * units::MiB}), "h200_sxm");
  EXPECT_EQ(descriptor_of({"NVIDIA H100 80GB HBM3", "9.0", 132, 81559.0 * units::MiB}), "h100_sxm");
  EXPECT_EQ(descriptor_of({"NVIDIA H200", "9.0", 60, 70000.0 * units::MiB}), "");  // a slice of one
  EXPECT_EQ(descriptor_of({"NVIDIA T1000", "7.5", 14, 4096.0 * units::MiB}), "");
}

}  // namespace
}  // namespace plumbline::board_test
