#include "arch/files.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "arch/error.hpp"

namespace plumbline::files_test {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  Files() {
    std::string pattern = (fs::temp_directory_path() / "plumbline-files-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~Files() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string folder_;
};

TEST_F(Files, WritesThenReadsTheSameBytes) {
  const std::string text("line\n\0binary\xff", 13);
  write_text_file(path("a"), text);
  EXPECT_EQ(read_text_file(path("a")), text);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1) << "a partial file was left";
}

TEST_F(Files, RefusesWhatItCannotReadOrWrite) {
  EXPECT_THROW(read_text_file(path("none")), BadInput);
  EXPECT_THROW(read_text_file(folder_), BadInput);
  write_text_file(path("big"), std::string(1000, 'x'));
  EXPECT_THROW(read_text_file(path("big"), 999.0 * units::B), BadInput);
  EXPECT_EQ(read_text_file(path("big"), 1000.0 * units::B).size(), 1000U);
  EXPECT_THROW(write_text_file(path("no/such/folder"), "x"), BadInput);
}

TEST_F(Files, AFailedWriteLeavesTheOldFile) {
  fs::create_directory(path("taken"));  // rename onto a folder fails
  std::ofstream(path("taken") + "/x") << "kept";
  EXPECT_THROW(write_text_file(path("taken"), "new"), BadInput);
  EXPECT_EQ(read_text_file(path("taken") + "/x"), "kept");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(Files, ListsJsonNamesSorted) {
  for (const char* name : {"b.json", "a.json", "c.txt"}) write_text_file(path(name), "{}");
  EXPECT_EQ(json_file_names(folder_), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(json_file_names(path("none")).empty());
}

/// PLUMBLINE_DATA and set_data_folder as they were, afterwards.
class DataFolder : public Files {
 protected:
  DataFolder() {
    if (const char* old = std::getenv("PLUMBLINE_DATA")) old_ = old;
  }
  ~DataFolder() override {
    set_data_folder("");
    if (old_.empty()) unsetenv("PLUMBLINE_DATA");
    else setenv("PLUMBLINE_DATA", old_.c_str(), 1);
  }
  static std::string refusal() {
    try {
      return "found " + data_folder();
    } catch (const BadInput& error) {
      return error.what();
    }
  }
  std::string old_;
};

// M9 of the attack: a data folder that is not there gave empty lists and exit code 0.
TEST_F(DataFolder, ThatIsNotThereIsRefusedByTheNameOfItsVariable) {
  setenv("PLUMBLINE_DATA", path("none").c_str(), 1);
  EXPECT_EQ(
      refusal(),
      "PLUMBLINE_DATA: expected Plumbline's data folder (with gpus, models, calibration in it), found no folder '" +
          path("none") + "'");
  EXPECT_THROW(data_names("gpus"), BadInput);
  setenv("PLUMBLINE_DATA", folder_.c_str(), 1);  // a folder, but without anything of ours
  EXPECT_NE(refusal().find("found another one"), std::string::npos) << refusal();
  fs::create_directory(path("gpus"));
  EXPECT_EQ(data_folder(), folder_);
  EXPECT_TRUE(data_names("gpus").empty());
  EXPECT_THROW(data_names("models"), BadInput);
}

TEST_F(DataFolder, IsChosenInCodeBeforeTheEnvironment) {
  fs::create_directories(path("mine/gpus"));
  fs::create_directories(path("theirs/gpus"));
  setenv("PLUMBLINE_DATA", path("theirs").c_str(), 1);
  set_data_folder(path("mine"));
  EXPECT_EQ(data_folder(), path("mine"));
  EXPECT_THROW(set_data_folder(path("none")), BadInput);
  EXPECT_EQ(data_folder(), path("mine"));
  set_data_folder("");
  EXPECT_EQ(data_folder(), path("theirs"));
}

TEST_F(DataFolder, OfTheInstalledPackageComesBeforeTheSourceTree) {
  unsetenv("PLUMBLINE_DATA");
  const std::string source = data_folder();
  const std::string installed = path("installed");
  know_installed_data(installed.c_str());
  EXPECT_EQ(data_folder(), source) << "a package that has gone is passed over";
  fs::create_directories(installed + "/models");
  EXPECT_EQ(data_folder(), installed);
  know_installed_data(nullptr);
  EXPECT_EQ(data_folder(), source);
}

TEST(NearestName, FindsTyposAndPrefixes) {
  const std::vector<std::string> names{"h100_sxm", "h200_sxm", "b200_sxm", "mi300x"};
  EXPECT_EQ(nearest_name("h20_sxm", names), "h200_sxm");
  EXPECT_EQ(nearest_name("mi300", names), "mi300x");
  EXPECT_EQ(nearest_name("h1", names), "h100_sxm");
  EXPECT_EQ(nearest_name("xylophone", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name("k", {"M", "N", "K"}), "K");
  EXPECT_EQ(nearest_name("--gup", {"--gpus", "--gpu", "--group"}), "--gpu") << "two letters that changed places";
  EXPECT_EQ(nearest_name("X", {"M", "N", "K"}), "") << "a letter is as far from one as from the next";
  EXPECT_EQ(nearest_name("a800", {"h800", "a100"}), "a100") << "of two that are as far the one that begins alike";
  EXPECT_EQ(nearest_name("kv_dtype", {"B", "Hq", "kv"}), "kv") << "a name and a word more";
  EXPECT_EQ(nearest_name("kvdtype", {"B", "Hq", "kv"}), "");
  EXPECT_EQ(did_you_mean("mi30x", names), " (did you mean 'mi300x'?)");
  EXPECT_EQ(did_you_mean("xylophone", names), "");
}

RC_GTEST_PROP(NearestName, OneEditOfALongNameIsFound, ()) {
  const std::vector<std::string> names{"memory.bandwidth", "links.pcie_per_direction", "boost_clock"};
  const std::string& name = *rc::gen::elementOf(names);
  std::string typo = name;
  typo[*rc::gen::inRange<std::size_t>(0, typo.size())] = '#';
  RC_ASSERT(nearest_name(typo, names) == name);
}

RC_GTEST_PROP(NearestName, AnswersOnlyWithACandidate,
              (const std::string& text, const std::vector<std::string>& names)) {
  const std::string found = nearest_name(text, names);
  RC_ASSERT(found.empty() || std::find(names.begin(), names.end(), found) != names.end());
}

TEST(LooksLikePath, TellsNamesFromPaths) {
  EXPECT_TRUE(looks_like_path("./h200"));
  EXPECT_TRUE(looks_like_path("my.json"));
  EXPECT_FALSE(looks_like_path("h200_sxm"));
  EXPECT_FALSE(looks_like_path("H200 SXM 141GB"));
}

}  // namespace
}  // namespace plumbline::files_test
