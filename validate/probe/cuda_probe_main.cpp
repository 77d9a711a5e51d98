// probe: checks our kernels on this GPU against references in fp64. Changes no setting of the card.
//
//   probe [--check] [FILE.csv] [--seed N] [--shapes N] [--topic WORD ...]
//     checks (--check may be said); --shapes: random shapes of each kernel (200); --topic: only topics whose name has the
//     word
//   probe --launch STUDY.csv [--launch STUDY.csv ...]
//     launches each case of the studies once, for a profiler to count instructions (tools/profiler_counts.py)
//   probe --collectives N --out FILE.csv [--nccl libnccl.so.2] [--quick] [--only SECTION[:GPUS]] [--seed N]
//     our collectives and NCCL's on the first 2 and N GPUs, and the links between them (cuda_links.hpp); sections: checks,
//     own, nccl, fabric, copies, overlap, beside, disk
//
// Operators are timed, and the card's scalars measured, by the `validate` command.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "arch/error.hpp"
#include "arch/files.hpp"
#include "tests/gpu/cases.hpp"
#include "validate/measure/cuda_card.hpp"
#include "validate/measure/cuda_launch_once.hpp"
#include "validate/probe/cuda_links.hpp"
#include "validate/record/study.hpp"

namespace {

using namespace plumbline;
using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string file;
  std::vector<std::string> topics;    ///< words in the names of what is checked; empty: all of it
  std::vector<std::string> launched;  ///< studies whose cases are launched once
  LinkOptions links;                  ///< gpus > 0: collectives and links are measured, nothing else is done
  unsigned seed = std::random_device{}();
  int shapes = 200;
};

unsigned number(const char* option, const char* text) {
  char* end = nullptr;
  errno = 0;
  const unsigned long value = text == nullptr ? 0 : std::strtoul(text, &end, 10);
  if (text == nullptr || *text == '\0' || *end != '\0' || errno != 0 || value > 0xffffffffUL || *text == '-') {
    throw BadInput(std::string(option) + ": expected a whole number, found '" + (text == nullptr ? "" : text) + "'");
  }
  return static_cast<unsigned>(value);
}

/// Options of --collectives with a value; false for another word.
bool parse_links(const std::string& word, const char* next, LinkOptions& links) {
  std::string* text = word == "--out"    ? &links.out
                      : word == "--nccl" ? &links.nccl
                      : word == "--only" ? &links.only
                                         : nullptr;
  if (word == "--collectives") {
    links.gpus = static_cast<int>(number("--collectives", next));
    if (links.gpus < 2 || links.gpus > kPeerRanks) {
      throw BadInput("--collectives: expected 2 to " + std::to_string(kPeerRanks) + " GPUs");
    }
    return true;
  }
  if (text == nullptr) return false;
  if (next == nullptr) throw BadInput(word + ": expected a value");
  *text = next;
  return true;
}

void need_links(const Arguments& a) {
  const bool other = !a.links.out.empty() || !a.links.nccl.empty() || !a.links.only.empty() || a.links.quick;
  if (a.links.gpus == 0 && other) throw BadInput("--out, --nccl, --only and --quick belong to --collectives N");
  if (a.links.gpus > 0 && a.links.out.empty()) throw BadInput("--collectives: expected --out FILE.csv");
}

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* next = i + 1 < argc ? argv[i + 1] : nullptr;
    if (word == "--check") continue;
    if (parse_links(word, next, a.links)) {
      ++i;
      continue;
    }
    if (word == "--quick") {
      a.links.quick = true;
      continue;
    }
    if (word == "--seed") {
      a.seed = number("--seed", next);
      ++i;
    } else if (word == "--shapes") {
      a.shapes = static_cast<int>(number("--shapes", next));
      if (a.shapes < 1 || a.shapes > 100000) throw BadInput("--shapes: expected 1 to 100000");
      ++i;
    } else if (word == "--topic") {
      if (next == nullptr) throw BadInput("--topic: expected a word of a topic's name");
      a.topics.emplace_back(next);
      ++i;
    } else if (word == "--launch") {
      if (next == nullptr) throw BadInput("--launch: expected a study (CSV)");
      a.launched.emplace_back(next);
      ++i;
    } else if (word.rfind("--", 0) == 0) {
      throw BadInput(word + ": expected --check, --collectives, --launch, --seed, --shapes or --topic");
    } else {
      a.file = word;
    }
  }
  need_links(a);
  a.links.seed = a.seed;
  a.links.again = {"probe", "--collectives", std::to_string(a.links.gpus), "--seed", std::to_string(a.seed)};
  return a;
}

int failed_of(const std::vector<Check>& checks) {
  return static_cast<int>(std::count_if(checks.begin(), checks.end(), [](const Check& c) { return !c.fault.empty(); }));
}

int failures(const std::vector<Check>& checks) {
  int failed = 0;
  for (const Check& c : checks) {
    if (c.fault.empty()) continue;
    ++failed;
    std::fprintf(stderr, "FAILED %s %s: %s (error %.3g, allowed %.3g)\n", c.op.c_str(), c.shape.c_str(),
                 c.fault.c_str(), c.error, c.allowed);
  }
  return failed;
}

void write_checks(const std::string& path, const std::vector<Check>& checks) {
  std::ostringstream text;
  text << "op,shape,error,allowed,fault\n";
  for (const Check& c : checks) {
    text << c.op << "," << c.shape << "," << c.error << "," << c.allowed << "," << c.fault << "\n";
  }
  write_text_file(path, text.str());
}

/// Says on stdout which case each marker's number is.
int launch_studies(const std::vector<std::string>& files) {
  std::vector<StudyCase> cases;
  for (const std::string& file : files) {
    for (StudyCase& what : read_study(file)) cases.push_back(std::move(what));
  }
  const std::vector<LaunchedOnce> done = launch_once(cases);
  std::printf("case,text,fault\n");
  for (std::size_t i = 0; i < done.size(); ++i) {
    std::printf("%zu,\"%s\",\"%s\"\n", i, done[i].text.c_str(), done[i].fault.c_str());
  }
  return static_cast<int>(ExitCode::done);
}

int run(const Arguments& a) {
  if (a.links.gpus > 0) {
    return static_cast<int>(measure_links(a.links).faults > 0 ? ExitCode::answered_no : ExitCode::done);
  }
  if (!a.launched.empty()) return launch_studies(a.launched);
  const auto start = Clock::now();
  const Board board(select_card());
  const Session session = card_session(board);
  if (session.compute_capability != "9.0") {
    throw DeviceError(session.gpu + ": our kernels are built for compute capability 9.0");
  }
  std::fprintf(stderr, "%s, driver %s, %s, seed %u\n", session.gpu.c_str(), session.driver.c_str(),
               session.runtime.c_str(), a.seed);
  const auto done = [&](const char* topic, const std::vector<Check>& checks) {
    std::fprintf(stderr, "%6.1f s  %s: %zu checks, %d failed\n",
                 std::chrono::duration<double>(Clock::now() - start).count(), topic, checks.size(), failed_of(checks));
  };
  const std::vector<Check> checks = check_kernels(a.seed, a.shapes, done, a.topics);
  if (checks.empty()) throw BadInput("--topic: no topic has such a name");
  const int failed = failures(checks);
  std::fprintf(stderr, "%zu checks, %d failed\n", checks.size(), failed);
  if (!a.file.empty()) write_checks(a.file, checks);
  return static_cast<int>(failed > 0 ? ExitCode::answered_no : ExitCode::done);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments arguments = parse(argc, argv);
    return run(arguments);
  } catch (const Error& e) {
    std::fprintf(stderr, "probe: %s\n", e.what());
    return static_cast<int>(e.code());
  }
}
