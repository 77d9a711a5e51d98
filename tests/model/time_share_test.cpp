// Where a step's time goes: the parts sum to 1, and each is what a faster resource saves.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/engine/timing.hpp"
#include "model/predict.hpp"

namespace plumbline::time_share_test {
namespace {

StepPrediction decode(const char* gpu, const std::vector<Override>& changes, std::int64_t batch) {
  MachineKey key{gpu};
  key.overrides = changes;
  Workload workload;
  workload.batch = batch;
  return predict(load_llm("llama-3.1-8b"), workload, machines().get(key), RunOptions{});
}

TEST(TimeShare, SumsToOne) {
  for (const std::int64_t batch : {1, 16, 256}) {
    const TimeShare s = decode("h200_sxm", {}, batch).share;
    EXPECT_NEAR(s.compute + s.memory + s.network + s.latency + s.launch, 1, 1e-6) << batch;
  }
}

/// Memory 2 % faster, DRAM and L2 alike: the step is shorter by 2 % of the memory's share. (By the resource that takes
/// longest alone the share was 26 % where the gain said 40.)
TEST(TimeShare, OfMemoryIsWhatAFasterMemorySaves) {
  for (const std::int64_t batch : {1, 16, 64}) {
    const StepPrediction before = decode("h200_sxm", {}, batch);
    const StepPrediction after = decode("h200_sxm", {{"memory.bandwidth", "+2%"}, {"l2.bandwidth", "+2%"}}, batch);
    const double saved = -std::log(after.latency / before.latency) / std::log(1.02);
    EXPECT_NEAR(saved, before.share.memory, 0.06) << batch;
  }
}

/// Terms that overlap share the time by the derivative of their p-norm.
TEST(TimeShare, OfOverlappingTermsFollowsTheirPNorm) {
  PerResource<Seconds> times, spent;
  times[Resource::dram] = 4.0 * units::us;
  times[Resource::latency] = 3.0 * units::us;
  times[Resource::tensor] = 1.0 * units::us;
  const double p = 4;
  const Seconds whole = pnorm(times, p, spent);
  EXPECT_EQ(whole, pnorm(times, p));
  Seconds sum;
  for (std::size_t i = 0; i < kResourceCount; ++i) {
    const auto r = static_cast<Resource>(i);
    sum += spent[r];
    if (times[r] <= Seconds{}) continue;
    PerResource<Seconds> faster = times;
    faster[r] = 0.999 * times[r];
    const Seconds saved = whole - pnorm(faster, p);
    EXPECT_NEAR(saved / (0.001 * whole), spent[r] / whole, 0.01) << name(r);
  }
  EXPECT_NEAR(sum / whole, 1, 1e-6);
}

/// The roofline's p: terms that are equally long are no number raised to it.
TEST(TimeShare, OfEqualTermsUnderAnInfinitePowerIsANumber) {
  PerResource<Seconds> times, spent;
  times[Resource::dram] = times[Resource::tensor] = 4.0 * units::us;
  EXPECT_EQ(pnorm(times, std::numeric_limits<double>::infinity(), spent), 4.0 * units::us);
  EXPECT_EQ(spent[Resource::dram] + spent[Resource::tensor], 4.0 * units::us);
}

}  // namespace
}  // namespace plumbline::time_share_test
