// How often the laws that compare predictions hold (tests/support/machine_laws.hpp).
//
//   build/bin/laws                          20,000 pairs of all stacks, and whether they keep to the bounds: exit 1 if not
//   build/bin/laws COUNT STACK [FIRST]      so many pairs of one stack, a line a change (1,000,000: some three minutes)
//
// Pairs have numbers, so that a run is the last one again.
#include <cstdio>
#include <cstdlib>

#include "tests/support/machine_laws.hpp"

namespace {

using plumbline::testing_support::LawCount;
using plumbline::testing_support::MachineLaws;

double percent(const LawCount& c) {
  return c.compared == 0 ? 0 : 100.0 * static_cast<double>(c.broken) / static_cast<double>(c.compared);
}

void print(const std::string& name, const LawCount& c) {
  std::printf("%-28s %9ld compared, broken %6ld (%.4f %%), > 1 %% %5ld, > 10 %% %4ld, > 25 %% %4ld, worst x%.3f %s\n",
              name.c_str(), c.compared, c.broken, percent(c), c.by_1, c.by_10, c.by_25, c.worst, c.worst_case.c_str());
}

LawCount sum(const std::map<std::string, LawCount>& counts) {
  LawCount all;
  for (const auto& [name, c] : counts) all += c;
  return all;
}

void print_all(const char* stack, const MachineLaws& laws) {
  std::printf("%s: %ld pairs, %ld refused, %ld under the roofline %s, %ld by more than a quarter unexplained %s\n",
              stack, laws.pairs, laws.refused, laws.under_roofline, laws.under.c_str(), laws.unexplained,
              laws.unexplained_case.c_str());
  for (const auto& [name, c] : laws.better) print(name, c);
  print("a better machine", sum(laws.better));
  for (const auto& [name, c] : laws.more) print("more " + name, c);
  print("more work", sum(laws.more));
  for (const auto& [name, n] : laws.broken) std::printf("  %6ld %s\n", n, name.c_str());
}

/// Shares in percent of what is compared.
struct Bounds {
  const char* stack;
  std::uint64_t pairs;
  double slower, worst;  ///< of better machines; `worst`: a factor
  double faster;         ///< of more work
};

bool keeps(const Bounds& bounds) {
  MachineLaws laws(bounds.stack);
  for (std::uint64_t i = 0; i < bounds.pairs; ++i) laws.look_at(i);
  const LawCount better = sum(laws.better), more = sum(laws.more);
  const bool kept = percent(better) <= bounds.slower && better.worst <= bounds.worst &&
                    percent(more) <= bounds.faster && laws.under_roofline == 0 && laws.unexplained == 0 &&
                    laws.pairs > 0;
  std::printf(
      "%-8s %s: %.4f %% slower on a better machine (%.4f allowed), worst x%.3f (%.2f), %.4f %% faster with more "
      "work (%.2f)\n",
      bounds.stack, kept ? "keeps the laws" : "BREAKS THEM", percent(better), bounds.slower, better.worst, bounds.worst,
      percent(more), bounds.faster);
  if (!kept) print_all(bounds.stack, laws);
  return kept;
}

/// What is left of ours, 82 of 1,220,590 comparisons, 22 by more than 1 %, the worst x1.09: work that is dealt out once
/// loses where it fills SMs unevenly (49: products and decode attention on more SMs); at the boost clock plans are chosen
/// before the cycles are counted that SMs skip there; of latent attention not every cut is tried (14); sum_all's grid
/// grows with the SMs of small machines, and its CTAs queue at one counter (9). Libraries' rules jump by what their
/// measured rows jump (rule_loss.hpp names them);
/// NCCL's messages are cheaper from 16 KiB on, where they carry no flags any more (send_recv with every stack but ideal,
/// and the exchange of tokens where the stack has no kernels for it).
constexpr Bounds kBounds[] = {{"ideal", 3000, 0, 1, 0},
                              {"own", 8000, 0.012, 1.02, 0.6},
                              {"trt-llm", 5000, 0.1, 3, 0.7},
                              {"vllm", 2000, 0.1, 1.25, 0.3},
                              {"sglang", 2000, 0.1, 1.25, 0.3}};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1) {
    bool kept = true;
    for (const Bounds& bounds : kBounds) kept = keeps(bounds) && kept;
    return kept ? 0 : 1;
  }
  if (argc < 3) {
    std::fprintf(stderr, "laws: expected nothing, or COUNT STACK [FIRST]\n");
    return 2;
  }
  const auto count = std::strtoull(argv[1], nullptr, 10), first = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 0;
  MachineLaws laws(argv[2]);
  for (std::uint64_t i = first; i < first + count; ++i) laws.look_at(i);
  print_all(argv[2], laws);
  return 0;
}
