#include "ops/shape/scan.hpp"

#include <algorithm>
#include <array>

#include "ops/facts/facts.hpp"
#include "ops/op/counting.hpp"

namespace plumbline {
namespace {

using namespace counting;

constexpr auto kScanNames =
    std::to_array<OperatorName>({{"sum_all", static_cast<int>(ScanKind::sum_all), false, Pattern::select_scan},
                                 {"cumsum", static_cast<int>(ScanKind::cumsum), false, Pattern::select_scan},
                                 {"norm_all", static_cast<int>(ScanKind::norm_all), true, Pattern::select_scan}});
static_assert(in_order(kScanNames));

constexpr auto kScanKeys = std::to_array<Key>({key<&Scan::n>("n")});

Work work_of(const Scan& s) {
  const double n = d(s.n);
  Work w;
  w.math = s.dtype;
  const bool norm = s.kind == ScanKind::norm_all;
  w.fp32 = flop(norm ? 2 * n : n);
  w.sfu = norm ? 1 : 0;
  w.read = storage(s.dtype, n);
  w.write = storage(s.dtype, s.kind == ScanKind::cumsum ? n : 1);
  return w;
}

Volume volume_of(const Scan& s) { return {d(s.n), 0}; }

}  // namespace

const Facts<Scan>& Scan::facts() {
  static constexpr Facts<Scan> kFacts{
      .names = kScanNames,
      .keys = kScanKeys,
      .work = work_of,
      .volume = volume_of,
  };
  return kFacts;
}

std::string_view name(ScanKind kind) { return kScanNames[static_cast<std::size_t>(kind)].name; }

}  // namespace plumbline
