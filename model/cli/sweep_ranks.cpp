#include "model/cli/sweep_ranks.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <thread>

#include "arch/error.hpp"

namespace plumbline::cli {
namespace {

constexpr int kHello = 0;  // tag of the first message; those of threads follow

/// How many ranks there are on this machine, as the launcher says; all of them where it says nothing.
int ranks_here(const Ranks& ranks) {
  const char* said = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  const int here = said != nullptr ? std::atoi(said) : 0;
  return here > 0 ? here : ranks.count();
}

std::string packed(const SweepPart& part) {
  std::ostringstream out;
  out << part.counts.done << ' ' << part.counts.kept << ' ' << part.counts.refused << ' ' << part.counts.bugs << ' '
      << part.best.size();
  for (const std::int64_t each : part.best) out << ' ' << each;
  out << '\n' << part.lines;
  return out.str();
}

/// Nothing of an empty message: the rank could not answer.
std::optional<SweepPart> unpacked(std::string message) {
  const std::size_t end = message.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream head(message.substr(0, end));
  SweepPart part;
  std::size_t count = 0;
  if (!(head >> part.counts.done >> part.counts.kept >> part.counts.refused >> part.counts.bugs >> count)) {
    return std::nullopt;
  }
  for (std::int64_t point = 0; head >> point;) part.best.push_back(point);
  if (part.best.size() != count) return std::nullopt;
  message.erase(0, end + 1);
  part.lines = std::move(message);
  return part;
}

/// Answers "FIRST COUNT" until an empty message comes.
void serve(Ranks& ranks, int tag, SweepServant& servant) {
  for (std::string asked = ranks.receive(0, tag); !asked.empty(); asked = ranks.receive(0, tag)) {
    std::istringstream range(asked);
    std::int64_t first = 0, count = 0;
    range >> first >> count;
    std::string answer;
    try {
      answer = packed(servant.answer(first, count));
    } catch (const std::exception&) {  // the first rank tries it itself, and says what is wrong
    }
    ranks.send(0, tag, answer);
  }
}

}  // namespace

int threads_of_rank(const Ranks& ranks, std::int64_t asked) {
  if (asked > 0) return static_cast<int>(asked);
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool known = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const int mine = known ? std::max(1, CPU_COUNT(&allowed)) : cores;
  return std::max(1, std::min(mine, cores / ranks_here(ranks)));
}

RankHelpers::RankHelpers(Ranks& ranks) : ranks_(ranks) {
  for (int rank = 1; rank < ranks.count(); ++rank) {
    const std::string hello = ranks.receive(rank, kHello);
    const int threads = std::atoi(hello.c_str());
    for (int i = 0; i < threads; ++i) threads_.push_back({rank, kHello + 1 + i});
    if (threads == 0) std::cerr << "predict-model sweep: rank " << rank << " has no part: " << hello << "\n";
  }
}

RankHelpers::~RankHelpers() {
  for (const Thread& each : threads_) ranks_.send(each.rank, each.tag, "");
}

std::vector<SweepHelper> RankHelpers::helpers() const {
  std::vector<SweepHelper> all;
  for (const Thread& each : threads_) {
    all.emplace_back([&ranks = ranks_, each](std::int64_t first, std::int64_t count) {
      ranks.send(each.rank, each.tag, std::to_string(first) + " " + std::to_string(count));
      return unpacked(ranks.receive(each.rank, each.tag));
    });
  }
  return all;
}

void serve_first_rank(Ranks& ranks, const Study& study, const SweepOptions& options, bool best, std::int64_t top) {
  std::vector<std::unique_ptr<SweepServant>> servants;
  for (int i = 0; i < options.threads; ++i) {
    servants.push_back(std::make_unique<SweepServant>(study, options, best, top));
  }
  ranks.send(0, kHello, std::to_string(servants.size()));
  std::vector<std::thread> threads;
  for (int i = 0; i < options.threads; ++i) {
    threads.emplace_back(
        [&ranks, i, &servants] { serve(ranks, kHello + 1 + i, *servants[static_cast<std::size_t>(i)]); });
  }
  for (std::thread& each : threads) each.join();
}

void decline_to_serve(Ranks& ranks, const std::string& why) { ranks.send(0, kHello, why); }

}  // namespace plumbline::cli
