#include "ops/row_menu.hpp"

namespace plumbline {

Choice choose(std::span<const Holding> menu, std::int64_t cols, int least) {
  const std::int64_t spare = whole_rows(cols) ? 0 : kRowVector;  // a row of any alignment touches a vector more
  for (std::size_t i = 0; i < menu.size(); ++i) {
    const Holding& h = menu[i];
    const std::int64_t holds = kRowVector * h.threads * h.vecs;
    const int entry = static_cast<int>(i);
    if (!h.clustered && least == 1 && cols + spare <= holds) return {entry, 1, h.threads == kRowWarp ? kRowsPerCta : 1};
    for (int cluster = std::max(2, least); h.clustered && cluster <= kMostRowCtas; cluster *= 2) {
      if (cols + spare * cluster <= holds * cluster) return {entry, cluster, 1};
    }
  }
  return {};
}

KernelPlan plan_of(const Holding& holding, const Choice& choice, std::int64_t rows) {
  KernelPlan p;
  p.ctas = (rows + choice.rows - 1) / choice.rows * choice.cluster;
  p.threads = std::int64_t{holding.threads} * choice.rows;
  p.cluster = choice.cluster;
  return p;
}

RowWay row_way(const Rowwise& s) {
  constexpr std::int64_t kSms = 132, kFewCtas = 4 * kSms;  // up to which rows count as few
  const Choice few = choose(entries(RowMenu::few), s.cols);
  if (few.entry >= 0 && s.rows * few.cluster <= (few.cluster > 1 ? kSms : kFewCtas)) return {RowMenu::few, few};
  const RowMenu menu = row_menu_of(s.kind);
  return {menu, choose(entries(menu), s.cols)};
}

Choice choose_topk(std::int64_t rows, std::int64_t cols, std::int64_t k) {
  constexpr int kFirstCta = 3;                 // the first entry that is not a warp a row
  constexpr std::int64_t kFewRows = 128;       // below: less than a row an SM, so a row is spread over a cluster
  constexpr std::int64_t kSpreadCols = 16384;  // ... if it has this many columns
  // a warp takes k trips over its elements, which pays while both are small
  const bool fits_warp = k <= 16 || (cols <= 256 && k <= 32);
  const Choice c = choose(kTopKMenu, cols, rows < kFewRows && cols >= kSpreadCols ? kMostRowCtas : 1);
  if (c.entry >= 0 && kTopKMenu[c.entry].threads == kRowWarp && !fits_warp) return {kFirstCta, 1, 1};
  return c;
}

}  // namespace plumbline
