// Machines with changed numbers, and predictors that keep plans: neither may show in an answer.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "model/engine/rates.hpp"
#include "model/machine/parts.hpp"
#include "model/predict.hpp"
#include "tests/support/places.hpp"
#include "tests/support/random_gpu.hpp"

namespace plumbline::predictor_test {
namespace {

using namespace testing_support;

Workload decode_of(std::int64_t batch) {
  Workload workload;
  workload.phase = Phase::decode;
  workload.batch = batch;
  workload.context = 4096;
  return workload;
}

void expect_same(const StepPrediction& a, const StepPrediction& b) {
  EXPECT_EQ(a.latency, b.latency);
  EXPECT_EQ(a.low, b.low);
  EXPECT_EQ(a.high, b.high);
  EXPECT_EQ(a.energy, b.energy);
  EXPECT_EQ(a.clock, b.clock);
  EXPECT_EQ(a.fits, b.fits);
}

struct Change {
  const char* path;
  const char* value;
  void (*apply)(GpuNumbers&);
};
const Change kChanges[] = {
    {"memory.bandwidth", "6TB/s", [](GpuNumbers& g) { g.memory.bandwidth = 6.0 * units::TB_per_s; }},
    {"sm_count", "160", [](GpuNumbers& g) { g.sm_count = 160; }},
    {"boost_clock", "2.2GHz", [](GpuNumbers& g) { g.boost_clock = 2.2 * units::GHz; }},
    {"tdp", "500W", [](GpuNumbers& g) { g.tdp = 500.0 * units::W; }},
};

/// A changed number gives what a descriptor with that number gives, read by a process that has seen nothing else.
TEST(ChangedMachine, IsThatOfADescriptorWithTheNumber) {
  const Llm llm = load_llm("llama-3.1-8b");
  Predictor kept;
  for (const KernelSet kernels : {KernelSet::own, KernelSet::library}) {
    for (const char* name : {"h200_sxm", "h100_pcie"}) {  // measured; taken over
      const MachineOptions options{usual_stack(kernels), ClockMode::steady, {}, {}};
      const Machine base = make_machine(load_gpu(name), options);
      for (const Change& change : kChanges) {
        GpuNumbers numbers = base.numbers();
        change.apply(numbers);
        const Machine changed = base.with(numbers);
        const Machine fresh = make_machine(load_gpu(name, {{change.path, change.value}}), options);
        EXPECT_TRUE(changed.rates() == fresh.rates()) << name << " " << change.path;
        EXPECT_EQ(changed.provenance(), fresh.provenance());
        expect_same(kept.predict(llm, decode_of(64), changed, {}), predict(llm, decode_of(64), fresh, {}));
      }
    }
  }
}

TEST(ChangedMachine, WithItsOwnNumbersIsItself) {
  const Machine base = make_machine(load_gpu("h200_sxm"), MachineOptions{"own"});
  EXPECT_EQ(base.with(base.numbers()).parts(), base.parts());
  GpuNumbers numbers = base.numbers();
  numbers.sm_count = 100;
  const Machine there = base.with(numbers), back = there.with(base.numbers());
  EXPECT_TRUE(back.rates() == base.rates());
  EXPECT_EQ(back.provenance(), Provenance::measured);
  EXPECT_EQ(back.assumptions(), base.assumptions());
}

TEST(ChangedMachine, SaysSo) {
  const Machine base = make_machine(load_gpu("h200_sxm"), MachineOptions{"own"});
  GpuNumbers numbers = base.numbers();
  numbers.memory.bandwidth *= 2;
  const Machine changed = base.with(numbers);
  EXPECT_EQ(changed.provenance(), Provenance::same_generation);
  EXPECT_EQ(changed.gpu().memory.bandwidth, numbers.memory.bandwidth);
  EXPECT_TRUE(changed.gpu().modified);
  EXPECT_EQ(changed.assumptions().size(), base.assumptions().size() + 1);
  numbers.tdp = 1.0 * units::W;
  EXPECT_THROW((void)base.with(numbers), BadInput);
}

/// Predictors of several threads on the same machines, points of a study among them, answer as one does alone.
TEST(Predictor, ThreadsDoNotDisturbEachOther) {
  const Llm llm = load_llm("llama-3.1-8b");
  const Machine base = make_machine(load_gpu("h200_sxm"), MachineOptions{"own"});
  const auto point = [&](int i) {
    GpuNumbers numbers = base.numbers();
    numbers.memory.bandwidth *= 1 + 0.01 * i;
    return base.with(numbers);
  };
  constexpr int kPoints = 40;
  std::vector<Seconds> alone;
  for (int i = 0; i < kPoints; ++i) alone.push_back(predict(llm, decode_of(1 + i), point(i), {}).latency);
  std::vector<std::vector<Seconds>> together(4, std::vector<Seconds>(kPoints));
  std::vector<std::thread> threads;
  for (auto& answers : together) {
    threads.emplace_back([&answers, &llm, &point] {
      Predictor predictor;
      for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < kPoints; ++i) {
          const Seconds latency = predictor.predict(llm, decode_of(1 + i), point(i), {}).latency;
          answers[static_cast<std::size_t>(i)] = latency;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& answers : together) EXPECT_EQ(answers, alone);
}

/// Many machines in turn through one predictor, more than it has places for.
RC_GTEST_PROP(Predictor, AnswersAsAFreshOneDoes, ()) {
  Predictor kept;
  std::vector<Machine> machines;
  for (int i = 0; i < 12; ++i) machines.push_back(random_machine());
  for (int i = 0; i < 60; ++i) {
    const Machine& m = machines[static_cast<std::size_t>(*rc::gen::inRange(0, 12))];
    const Op op = random_op_on(m);
    try {
      const OpPrediction a = kept.predict(op, m), b = predict(op, m);
      RC_ASSERT(a.time == b.time && a.low == b.low && a.dram_read == b.dram_read && a.gemm_plan == b.gemm_plan);
    } catch (const BadInput&) {
    } catch (const NotModelled&) {
    }
  }
}

/// No state of a thread's own anywhere in model/, and files are read by machines.cpp, reports and programs alone.
TEST(Rooms, KeepNothingHiddenAndReadNoFiles) {
  namespace fs = std::filesystem;
  int read = 0;
  for (const auto& entry : fs::recursive_directory_iterator(testing_support::tests_folder() + "/../model")) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}}, path = entry.path().string();
    ++read;
    EXPECT_EQ(text.find("thread_"
                        "local"),
              std::string::npos)
        << path;
    const bool may_read = path.find("/model/machines.") != path.npos || path.find("/model/cli/") != path.npos ||
                          path.find("/model/report/") != path.npos ||
                          path.find("/model/question/") != path.npos;  // files that flags name
    if (may_read) continue;
    for (const char* reader : {"load_gpu(", "load_calibration(", "calibration_for(", "read_text_file(", "ifstream"}) {
      for (std::size_t at = text.find(reader); at != text.npos; at = text.find(reader, at + 1)) {
        const std::size_t line = text.rfind('\n', at) + 1;
        EXPECT_EQ(text.substr(line, 2), "//") << path << ": " << reader;
      }
    }
  }
  EXPECT_GT(read, 50);
}

TEST(Machines, AreMadeOnce) {
  Machines all;
  const Machine first = all.get({"h200_sxm"}), second = all.get({"h200_sxm"});
  EXPECT_EQ(first.parts(), second.parts());
  MachineKey key{"h200_sxm"};
  key.options.clock = ClockMode::steady;
  EXPECT_NE(all.get(key).parts(), first.parts());
  key.overrides = {{"sm_count", "100"}};
  EXPECT_EQ(all.get(key).numbers().sm_count, 100);
  EXPECT_THROW((void)all.get({"no_such_card"}), BadInput);
}

}  // namespace
}  // namespace plumbline::predictor_test
