// The timeline of two streams: cases by hand, and laws on random launches.
#include "model/schedule/timeline.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

#include "tests/support/random_gpu.hpp"

namespace plumbline::timeline_test {
namespace {

using testing_support::between;
using testing_support::whole_between;

SharedLaunch in_waves(Seconds time) {
  SharedLaunch pair;
  pair.apart = true;
  pair.time = time;
  return pair;
}

SharedLaunch together(Seconds first, Seconds late) {
  SharedLaunch pair = in_waves(first);
  pair.at_once = true;
  pair.late = late;
  return pair;
}

class Known final : public Sharing {
 public:
  SharedLaunch beside(std::size_t compute, std::size_t network) const override {
    const auto found = pairs.find({compute, network});
    return found == pairs.end() ? SharedLaunch{} : found->second;
  }
  std::map<std::pair<std::size_t, std::size_t>, SharedLaunch> pairs;
};

Seconds us(double t) { return t * units::us; }

TimedLaunch launch(int stream, double time, std::array<int, 2> depends = {-1, -1}) {
  TimedLaunch out;
  out.stream = stream;
  out.depends = depends;
  out.time = out.turn = us(time);
  return out;
}

std::vector<LaunchSpan> scheduled(const std::vector<TimedLaunch>& launches, const Known& known = {}) {
  std::vector<LaunchSpan> spans;
  schedule(launches, known, spans);
  return spans;
}

void expect_span(const LaunchSpan& span, double start, double end) {
  EXPECT_NEAR(span.start.in(units::us), start, 1e-9);
  EXPECT_NEAR(span.end.in(units::us), end, 1e-9);
}

TEST(Timeline, WhatDependsWaits) {
  const auto spans = scheduled({launch(0, 10), launch(1, 5, {0, -1}), launch(0, 3), launch(0, 4, {1, 2})});
  expect_span(spans[0], 0, 10);
  expect_span(spans[1], 10, 15);
  expect_span(spans[2], 10, 13);
  expect_span(spans[3], 15, 19);
  EXPECT_NEAR(spans[1].beside.in(units::us), 3, 1e-9);
  EXPECT_EQ(spans[1].other, 2);
  EXPECT_EQ(spans[0].other, -1);
}

/// A persistent grid whose work is dealt out: CTAs that find no SM begin when the collective ends...
TEST(Timeline, LateCtasMakeALaunchAsMuchLongerAsTheCollectiveGoesOn) {
  Known known;
  known.pairs[{1, 0}] = together(us(100), us(100));
  const auto spans = scheduled({launch(1, 30), launch(0, 100)}, known);
  expect_span(spans[0], 0, 30);
  expect_span(spans[1], 0, 130);
  EXPECT_NEAR(spans[0].beside.in(units::us), 30, 1e-9) << "hidden, and paid for";
}

/// ... or when the first of its own end: memory-bound ones early, as fewer share the memory.
TEST(Timeline, LateCtasTakeTheSmsOfThoseThatAreThrough) {
  Known known;
  known.pairs[{1, 0}] = together(us(80), us(40));
  const auto spans = scheduled({launch(1, 300), launch(0, 100)}, known);
  expect_span(spans[1], 0, 120);
  expect_span(spans[0], 0, 300);
  known.pairs[{1, 0}].late = us(10);
  expect_span(scheduled({launch(1, 300), launch(0, 100)}, known)[1], 0, 100);
}

/// 30 us of the collective, in which two thirds of the launch's speed are left.
TEST(Timeline, WavesGoOnOnTheSmsThatAreLeft) {
  Known known;
  known.pairs[{1, 0}] = in_waves(us(150));
  TimedLaunch waves = launch(0, 100);
  waves.turn = us(10);
  expect_span(scheduled({launch(1, 30), waves}, known)[1], 0, 110);
}

TEST(Timeline, ACollectiveWaitsUntilCtasTurnOver) {
  Known known;
  known.pairs[{0, 2}] = in_waves(us(100));
  TimedLaunch waves = launch(0, 100);
  waves.turn = us(10);
  // ready at 25
  expect_span(scheduled({waves, launch(1, 25), launch(1, 5)}, known)[2], 30, 35);
  waves.turn = us(100);
  expect_span(scheduled({waves, launch(1, 25), launch(1, 5)}, known)[2], 100, 105);
}

TEST(Timeline, ALaunchThatFindsNoSmWaits) {
  Known known;
  known.pairs[{1, 0}].apart = known.pairs[{1, 0}].none_left = true;
  const auto spans = scheduled({launch(1, 30), launch(0, 100)}, known);
  expect_span(spans[1], 30, 130);
  EXPECT_EQ(spans[0].beside, Seconds{});
}

/// 0.7 and 0.5 of DRAM: both at 1 / 1.2 of their speed, until the first is done.
TEST(Timeline, BothAreSlowerWhereMemoryIsAskedForTooMuch) {
  TimedLaunch reads = launch(0, 100), moves = launch(1, 50);
  reads.dram = 0.7;
  moves.dram = 0.5;
  const auto spans = scheduled({moves, reads});
  expect_span(spans[0], 0, 60);
  expect_span(spans[1], 0, 110);
  reads.dram = 0.5;
  expect_span(scheduled({moves, reads})[1], 0, 100);
}

struct Random {
  std::vector<TimedLaunch> launches;
  Known known;
};

SharedLaunch random_pair(const TimedLaunch& compute) {
  SharedLaunch pair;
  pair.apart = *rc::gen::arbitrary<bool>();
  if (!pair.apart) return pair;
  pair.none_left = whole_between(0, 9) == 0;
  pair.at_once = compute.turn == compute.time && *rc::gen::arbitrary<bool>();
  pair.time = pair.at_once ? between(0.5, 1) * compute.time : between(1, 4) * compute.time;
  pair.late = between(0.1, 1) * compute.time;
  return pair;
}

Random random_launches(bool memory) {
  Random out;
  const auto count = whole_between(1, 40);
  for (int i = 0; i < count; ++i) {
    TimedLaunch one = launch(static_cast<int>(whole_between(0, 1)), between(0.1, 100));
    if (*rc::gen::arbitrary<bool>()) one.turn = one.time / static_cast<double>(whole_between(2, 9));
    for (int& other : one.depends) {
      if (i > 0 && *rc::gen::arbitrary<bool>()) other = static_cast<int>(whole_between(0, i - 1));
    }
    if (memory) one.dram = between(0, 1);
    out.launches.push_back(one);
  }
  for (std::size_t c = 0; c < out.launches.size(); ++c) {
    for (std::size_t n = 0; n < out.launches.size(); ++n) {
      if (out.launches[c].stream == 0 && out.launches[n].stream == 1) {
        out.known.pairs[{c, n}] = random_pair(out.launches[c]);
        out.known.pairs[{c, n}].dram = out.launches[c].dram;
      }
    }
  }
  return out;
}

RC_GTEST_PROP(Timeline, KeepsDependenciesAndTheOrderOfStreams, ()) {
  const Random r = random_launches(true);
  const auto spans = scheduled(r.launches, r.known);
  std::array<Seconds, 2> free;
  Seconds end, sum;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const TimedLaunch& l = r.launches[i];
    const auto stream = static_cast<std::size_t>(l.stream);
    RC_ASSERT(spans[i].start >= free[stream]);
    free[stream] = spans[i].end;
    for (const int other : l.depends) {
      if (other < 0) continue;
      RC_ASSERT(spans[i].start >= spans[static_cast<std::size_t>(other)].end);
    }
    RC_ASSERT(spans[i].end - spans[i].start >= (1 - 1e-9) * l.time);
    RC_ASSERT(spans[i].beside <= (1 + 1e-9) * (spans[i].end - spans[i].start));
    sum += spans[i].end - spans[i].start - (l.stream == 1 ? spans[i].beside : Seconds{});
    end = std::max(end, spans[i].end);
  }
  // something runs at any time: compute, or communication that compute waits for
  RC_ASSERT(std::abs(sum / end - 1) < 1e-9);
}

RC_GTEST_PROP(Timeline, IsNeverLongerThanOneAfterTheOther, ()) {
  const Random r = random_launches(false);
  Seconds sum, end;
  for (const TimedLaunch& l : r.launches) sum += l.time;
  for (const LaunchSpan& span : scheduled(r.launches, r.known)) end = std::max(end, span.end);
  RC_ASSERT(end <= (1 + 1e-9) * sum);
}

}  // namespace
}  // namespace plumbline::timeline_test
