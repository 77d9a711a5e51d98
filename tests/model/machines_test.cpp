// The cache of machines: one a key, from files that are read once, for any number of threads.
#include "model/machines.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "model/engine/rates.hpp"
#include "model/stacks/stack.hpp"

namespace plumbline::machines_test {
namespace {

MachineKey of_stack(const std::string& gpu, const char* stack) {
  MachineKey key{gpu};
  key.options.stack = stack;
  return key;
}

/// A folder with files that a test may take away.
class MachinesCache : public ::testing::Test {
 protected:
  MachinesCache() {
    std::string pattern = (std::filesystem::temp_directory_path() / "plumbline-machines-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~MachinesCache() override { std::filesystem::remove_all(folder_); }

  std::string written(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    write_text_file(path, text);
    return path;
  }
  /// A card of `sms` SMs that is otherwise an H100 and takes over that calibration.
  std::string card(const std::string& file, int sms, const std::string& calibration = "h200_sxm") const {
    return written(file, R"({"name": "mine", "extends": "h100_sxm", "calibration": ")" + calibration +
                             R"(", "sm_count": )" + std::to_string(sms) + "}");
  }

  std::string folder_;
  Machines all_;
};

/// Numbers that are set stay, be it to their own values: beside twice the SMs an H200's L2 bandwidth, derived from them,
/// is what --set says.
TEST_F(MachinesCache, WhatIsSetToItsOwnValueStays) {
  const Gpu h200 = load_gpu("h200_sxm");
  ASSERT_GT(h200.l2_bytes_per_sm_clk, 0);
  const std::string same = std::to_string(h200.l2.bandwidth.in(units::B_per_s)) + " B/s";
  MachineKey key{"h200_sxm"};
  key.overrides = {{"sm_count", "264"}};
  EXPECT_EQ(all_.get(key).numbers().l2.bandwidth, 2.0 * h200.l2.bandwidth);
  key.overrides.push_back({"l2.bandwidth", same});
  EXPECT_EQ(all_.get(key).numbers().l2.bandwidth, h200.l2.bandwidth);
  EXPECT_EQ(all_.get({"h200_sxm"}).with(load_gpu("h200_sxm", key.overrides)).numbers().l2.bandwidth, h200.l2.bandwidth);
}

TEST_F(MachinesCache, EveryPartOfAKeyCounts) {
  std::vector<MachineKey> keys(9, {"h200_sxm"});
  keys[1].gpu = "h100_sxm";
  keys[2].options.stack = "vllm";
  keys[3].options.clock = ClockMode::steady;
  keys[4].options.power_cap = 500.0 * units::W;
  keys[4].options.clock = ClockMode::steady;
  keys[5].options.data = DataPattern::zeros;
  keys[6].calibration_file = data_folder() + "/calibration/h200_sxm.json";
  keys[7].overrides = {{"sm_count", "100"}};
  keys[8].overrides = {{"sm_count", "101"}};
  std::vector<Machine> made;
  for (const MachineKey& key : keys) made.push_back(all_.get(key));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    for (std::size_t j = 0; j < keys.size(); ++j) {
      EXPECT_EQ(all_.get(keys[j]).parts() == made[i].parts(), i == j) << i << " " << j;
      EXPECT_EQ(keys[i] < keys[j] || keys[j] < keys[i], i != j) << i << " " << j;
    }
  }
}

/// What was read stays as it was read: the files may change or go.
TEST_F(MachinesCache, FilesAreReadOnce) {
  const std::string gpu = card("card.json", 100);
  const std::string calibration =
      written("calibration.json", read_text_file(data_folder() + "/calibration/h200_sxm.json"));
  const std::string stack = written("stack.json", read_text_file(data_folder() + "/stacks/trt-llm.json"));
  MachineKey key{gpu, {}, calibration};
  key.options.stack = stack;
  EXPECT_EQ(all_.get(key).numbers().sm_count, 100);
  EXPECT_EQ(all_.get(key).stack().name, "trt-llm");
  card("card.json", 50);
  std::filesystem::remove(calibration);
  EXPECT_EQ(all_.get(key).numbers().sm_count, 100);
  key.options.clock = ClockMode::steady;  // another machine of the same files
  EXPECT_EQ(all_.get(key).numbers().sm_count, 100);
  EXPECT_EQ(all_.gpu(gpu).sm_count, 100);
  Machines afterwards;
  EXPECT_EQ(afterwards.gpu(gpu).sm_count, 50);
  EXPECT_THROW((void)afterwards.get(key), BadInput);
}

TEST_F(MachinesCache, StacksAreReadOnce) {
  const std::string path = written("stack.json", read_text_file(data_folder() + "/stacks/vllm.json"));
  const Stack& first = all_.stack(path);
  std::filesystem::remove(path);
  EXPECT_EQ(&all_.stack(path), &first);
  EXPECT_EQ(first.name, "vllm");
}

/// Two descriptors may say the same name and take over different calibrations.
TEST_F(MachinesCache, CardsOfOneNameKeepTheirOwnCalibrations) {
  const std::string first = card("first.json", 100, "h200_sxm"), second = card("second.json", 100, "a100_sxm");
  EXPECT_EQ(all_.get(of_stack(first, "trt-llm")).calibration().gpu, "h200_sxm");
  EXPECT_EQ(all_.get(of_stack(second, "trt-llm")).calibration().gpu, "a100_sxm");
}

/// A key that could not be made is not remembered as if it had been.
TEST_F(MachinesCache, ARefusalLeavesNothingBehind) {
  const std::string path = folder_ + "/card.json";
  EXPECT_THROW((void)all_.get({path}), BadInput);
  card("card.json", 100);
  EXPECT_EQ(all_.get({path}).numbers().sm_count, 100);
  MachineKey capped{path};
  capped.options.power_cap = 1.0 * units::W;
  capped.options.clock = ClockMode::steady;
  EXPECT_THROW((void)all_.get(capped), BadInput);
  EXPECT_THROW((void)all_.get(capped), BadInput);
  EXPECT_THROW((void)all_.stack("trt-lm"), BadInput);
}

/// Threads that ask at the same time for machines of the same cards get the same ones.
TEST_F(MachinesCache, ThreadsShareWhatIsMade) {
  const std::vector<MachineKey> keys{
      {"h200_sxm"}, of_stack("h200_sxm", "vllm"), of_stack("a100_sxm", "trt-llm"), of_stack("h200_sxm", "ideal")};
  std::vector<std::vector<std::shared_ptr<const MachineParts>>> seen(8);
  std::vector<std::thread> threads;
  for (auto& mine : seen) {
    threads.emplace_back([&mine, &keys, this] {
      for (const MachineKey& key : keys) mine.push_back(all_.get(key).parts());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : seen) EXPECT_EQ(mine, seen[0]);
}

TEST(MakeMachine, TakesTheProcessesOwnStacks) {
  MachineOptions options;
  options.stack = "vllm";
  EXPECT_EQ(make_machine(load_gpu("h200_sxm"), options).stack().title, machines().stack("vllm").title);
  EXPECT_EQ(make_machine(load_gpu("h200_sxm"), load_calibration("h200_sxm", ""), options).rates(),
            machines().get({"h200_sxm", options}).rates());
}

}  // namespace
}  // namespace plumbline::machines_test
