// Committed measurements are as they were taken: each file's SHA-256 stands in data/measurements/SHA256SUMS.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include "arch/files.hpp"
#include "arch/sha256.hpp"
#include "tests/support/sampled.hpp"

namespace plumbline::checksums_test {
namespace {

namespace fs = std::filesystem;

TEST(Sha256, OfTheStandardsExamples) {
  EXPECT_EQ(Sha256::of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256::of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256::of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

/// File below data/measurements by its listed checksum.
std::map<std::string, std::string> listed(const fs::path& folder) {
  std::istringstream lines(read_text_file((folder / "SHA256SUMS").string()));
  std::map<std::string, std::string> sums;
  std::string sum, file;
  while (lines >> sum >> file) EXPECT_TRUE(sums.emplace(file, sum).second) << file << " is listed twice";
  return sums;
}

TEST(Measurements, AreAsTheirChecksumsSay) {
  const fs::path folder = fs::path(data_folder()) / "measurements";
  std::map<std::string, std::string> sums = listed(folder);
  EXPECT_GT(sums.size(), 150U);
  std::size_t seen = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = fs::relative(entry.path(), folder).generic_string();
    if (!entry.is_regular_file() || name == "SHA256SUMS" || entry.path().filename() == "README.md") continue;
    const auto known = sums.find(name);
    if (known == sums.end()) {
      ADD_FAILURE() << name << " is not in data/measurements/SHA256SUMS: tools/checksums.sh adds new measurements";
      continue;
    }
    if (seen++ % test::kEach == 0) {
      EXPECT_EQ(Sha256::of(read_text_file(entry.path().string())), known->second)
          << name << " is not as it was measured";
    }
    sums.erase(known);
  }
  for (const auto& [name, sum] : sums) ADD_FAILURE() << name << " is gone";
}

}  // namespace
}  // namespace plumbline::checksums_test
