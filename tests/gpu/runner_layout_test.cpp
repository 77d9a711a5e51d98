// Where operands of runners lie. No GPU is needed.
#include "kernels/run/runner_layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "arch/error.hpp"

namespace plumbline {
namespace {

using Room = std::array<std::size_t, kRegions>;

Room room_of(std::size_t each) {
  Room room{};
  room.fill(each);
  return room;
}

TEST(RunnerLayout, CountsWhatASlotTakesInEachRegion) {
  RunnerLayout layout;
  layout.add(Region::normal_bf16, 1000);  // 1024 aligned
  layout.add(Region::normal_bf16, 256);
  layout.add(Region::output, 1);
  layout.add_shared(Region::scratch, 4096);
  EXPECT_EQ(layout.slot_bytes(), 1024U + 256U + 256U);  // what slots share does not count
  EXPECT_EQ(layout.max_slots(room_of(12800)), 10);
}

TEST(RunnerLayout, RefusesWhatDoesNotFitOnce) {
  RunnerLayout layout;
  layout.add_shared(Region::normal_bf16, 3000000);
  layout.add(Region::normal_bf16, 2000000);
  EXPECT_EQ(layout.max_slots(room_of(7100000)), 2);
  try {
    layout.max_slots(room_of(4000000));
    FAIL() << "fitted";
  } catch (const NotModelled& refusal) {
    EXPECT_STREQ(refusal.what(), "one set of operands takes 5 MB, there is room for 4 MB");
  }
}

TEST(RunnerLayout, AnOperandOfNoBytesHasNoPlace) {
  RunnerLayout layout;
  const std::size_t none = layout.add(Region::output, 0);
  EXPECT_EQ(layout.place(none).bytes, 0U);
  EXPECT_EQ(layout.slot_bytes(), 0U);
  EXPECT_GE(layout.max_slots(room_of(1)), 1);
}

TEST(RunnerLayout, NoTwoOperandsOfAnySlotsOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    RunnerLayout layout;
    std::vector<std::size_t> numbers;
    for (int i = 0; i < 6; ++i) {
      const auto region = static_cast<Region>(random() % 2);
      const std::size_t bytes = random() % 5000;
      numbers.push_back(random() % 3 == 0 ? layout.add_shared(region, bytes) : layout.add(region, bytes));
    }
    constexpr std::size_t kRoom = 100000;
    const auto slots = static_cast<std::size_t>(std::min<std::int64_t>(layout.max_slots(room_of(kRoom)), 100));
    std::array<std::vector<char>, 2> taken{std::vector<char>(kRoom), std::vector<char>(kRoom)};
    for (const std::size_t number : numbers) {
      const RunnerLayout::Place at = layout.place(number);
      EXPECT_EQ(at.offset % 256, 0U);
      for (std::size_t slot = 0; slot < (at.stride == 0 ? 1 : slots); ++slot) {
        for (std::size_t i = 0; i < at.bytes; ++i) {
          char& byte = taken[static_cast<std::size_t>(at.region)].at(at.offset + slot * at.stride + i);
          ASSERT_EQ(byte, 0) << "round " << round << ", operand " << number << ", slot " << slot;
          byte = 1;
        }
      }
    }
  }
}

}  // namespace
}  // namespace plumbline
